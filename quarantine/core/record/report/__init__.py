"""`quarantine report`: what the trail says about a stretch of time, as sums. Pure; rendered elsewhere."""

from quarantine.core.record.report.make import Report, Wanted, report
from quarantine.core.record.report.material import CaseGroup, Counted, HoldGroup, MachineSum, Material, Part

__all__ = ["CaseGroup", "Counted", "HoldGroup", "MachineSum", "Material", "Part", "Report", "Wanted", "report"]
