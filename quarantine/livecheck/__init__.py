"""Policies held against a Prometheus: do their selectors match series, which nodes lack them, how often values come."""

from quarantine.livecheck.check import Live, Moment, Remark, hold_against

__all__ = ["Live", "Moment", "Remark", "hold_against"]
