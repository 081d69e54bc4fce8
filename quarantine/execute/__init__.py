"""Carry out what was decided: persist the attempt, do it, persist the outcome.

What fails stays in the outbox and is tried again in a later cycle, ever more slowly. What was started and has no
outcome (a crash in between) is looked up at the far side before it is done again.
"""

from quarantine.execute.executor import Executor
from quarantine.execute.outcome import Executed, Outcome

__all__ = ["Executed", "Executor", "Outcome"]
