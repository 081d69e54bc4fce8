"""`quarantine trust`: the command, and how the path of trust is told."""

from quarantine.cli.trust.command import trust

__all__ = ["trust"]
