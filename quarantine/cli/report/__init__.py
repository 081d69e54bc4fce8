"""`quarantine report`: the command, and how a report is told."""

from quarantine.cli.report.command import report

__all__ = ["report"]
