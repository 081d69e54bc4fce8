"""`quarantine policy backtest`: the command, and how its result is told."""

from quarantine.cli.backtest.command import backtest

__all__ = ["backtest"]
