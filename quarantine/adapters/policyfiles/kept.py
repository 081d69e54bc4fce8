"""Policies as the ledger keeps them: the texts of their versions, and the files that are in force."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from quarantine.adapters.policyfiles.loader import CheckResult, check_paths
from quarantine.adapters.policyfiles.reading import read_files
from quarantine.core.policy import Policy, PolicySpec
from quarantine.core.rulefiles import RuleFile

_NOWHERE = Path("the ledger")


def spec_of(text: str) -> PolicySpec | None:
    """What a version of a policy says, by its text as it is kept: the policy's, its Defaults' and its procedures'.

    None where this version of the program takes it for no policy.
    """
    read = read_files([(_NOWHERE, _NOWHERE)], [], {_NOWHERE: text})
    return next((model.spec for _, _, model in read.documents if isinstance(model, Policy)), None)


def in_force(files: Iterable[RuleFile], *, prefix: str) -> CheckResult:
    """The rules of the files that were accepted last, whatever is on disk. `rules` None: no Fleet is among them."""
    known = {Path(one.file): one for one in files}
    return check_paths(
        sorted(known),
        prefix=prefix,
        instead_of={path: one.text for path, one in known.items()},
        former={path: one.defaults for path, one in known.items() if one.defaults is not None},
    )
