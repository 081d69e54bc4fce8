"""Everything that the controller depends on, tried from where this runs: what is well, what is not, and what to do."""

from quarantine.doctor.finding import Finding, Level
from quarantine.doctor.patient import Patient
from quarantine.doctor.ward import CHECKS, examine, worst

__all__ = ["CHECKS", "Finding", "Level", "Patient", "examine", "worst"]
