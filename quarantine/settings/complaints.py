"""pydantic's findings as one sentence of ours: where, what is wrong, and what to write instead."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from typing import Any

from pydantic import ValidationError

from quarantine.settings.layers import Layer, dotted
from quarantine.settings.leaves import LEAVES, groups
from quarantine.settings.models import Settings

_VERBS = ("is", "may", "must", "would")


def complaint(error: ValidationError, layers: Sequence[Layer]) -> str:
    """The first finding, and how many more there are. `layers` from the top. It repeats no secret."""
    findings = error.errors(include_url=False, include_input=False)
    for finding in findings:
        finding["loc"] = tuple(part for part in finding["loc"] if part != "[key]")  # of a name, its own place
    what = _what(findings[0])
    where = _where(findings[0]["loc"], what, layers)
    more = f" ({len(findings) - 1} more after this one)" if len(findings) > 1 else ""
    return f"{where}{'' if what.split()[0] in _VERBS else ':'} {what}{more}."


def _where(location: tuple[str | int, ...], what: str, layers: Sequence[Layer]) -> str:
    """The upper layer that says something of it; of a list's item or a header, what is nearest above."""
    for depth in range(len(location), 0, -1):
        names = tuple(str(part) for part in location[:depth])
        its_file = (*names[:-1], f"{names[-1]}_file")
        for layer in layers:
            if layer.has(its_file):  # the secret that was read from it
                return layer.where(its_file)
            if layer.has(names):
                return layer.where(location)
    for leaf in LEAVES:  # what concerns several groups names them
        for layer in layers:
            if leaf.name in what and layer.has(leaf.path):
                return layer.where(leaf.path)
    return dotted(location) or "The settings do not fit together"


_SENTENCES = {
    "missing": "is missing",
    "model_type": "must be a mapping of names to values",
    "model_attributes_type": "must be a mapping of names to values",
    "dict_type": "must be a mapping of names to values",
    "string_too_short": "may not be empty",
    "too_short": "may not be empty",
    "path_type": "must be a path",
}


def _what(finding: Any) -> str:
    context = finding.get("ctx") or {}
    match finding["type"]:
        case "extra_forbidden":
            return f"is no setting{_hint(finding['loc'])}"
        case "value_error":
            return str(context["error"])
        case "enum" | "literal_error":
            return "must be " + str(context["expected"]).replace("'", "")
        case kind if kind in _SENTENCES:
            return _SENTENCES[kind]
    said = str(finding["msg"]).replace("Input should be", "must be")
    return said[:1].lower() + said[1:]


def _hint(location: tuple[str | int, ...]) -> str:
    *parents, wrong = (str(part) for part in location)
    group = groups().get(parents[0]) if parents else Settings
    known = list(group.model_fields) if group else []
    if close := difflib.get_close_matches(wrong.lower(), known, n=1, cutoff=0.6):
        return f"; did you mean {'.'.join((*parents, close[0]))}"
    for name, nested in groups().items():  # written one level too high
        if not parents and wrong in nested.model_fields:
            return f"; did you mean {name}.{wrong}"
    return f"; there are {', '.join(known)}" if len(known) < 8 else "; see the reference of settings"
