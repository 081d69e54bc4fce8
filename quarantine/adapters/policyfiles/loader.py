"""Policy files → rules, or every fault of every file.

A broken file or document never hides what is wrong, or right, with another.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import ValidationError

from quarantine.adapters.policyfiles.faults import Fault, PolicyFaults, fault_at, fault_of
from quarantine.adapters.policyfiles.files import policy_files, revision_of
from quarantine.adapters.policyfiles.humane import closest, describe, dotted, translate
from quarantine.adapters.policyfiles.semantics import query_faults, selector_faults, signal_faults
from quarantine.adapters.policyfiles.strictyaml import Path_, StrictDocument, YamlFault, load_strict, read_text
from quarantine.core.contradictions import contradictions
from quarantine.core.document import API_VERSION
from quarantine.core.fleet import Fleet
from quarantine.core.policy import KINDS, Document, LoadedPolicy, Policy, Rules
from quarantine.core.signal import Signal, SignalSpec

DEFAULT_PREFIX = "quarantine.gpu"


@dataclass(frozen=True, slots=True)
class CheckResult:
    """What a check found. `rules` are made of the sound documents alone; None where there is no sound Fleet."""

    faults: tuple[Fault, ...]  # in the order of file and line
    rules: Rules | None
    counts: Mapping[str, int]  # files read; policies, signals and fleets that are sound


def load_rules(paths: Sequence[Path], *, prefix: str = DEFAULT_PREFIX) -> Rules:
    """The rules in files and directories. Raises PolicyFaults where anything at all is wrong with them."""
    result = check_paths(paths, prefix=prefix)
    if result.faults:
        raise PolicyFaults(result.faults)
    assert result.rules is not None  # noqa: S101  (no fleet is a fault)
    return result.rules


def check_paths(paths: Sequence[Path], *, prefix: str = DEFAULT_PREFIX) -> CheckResult:
    """Every fault in files and directories, and the rules that the sound documents make. Raises nothing."""
    files, faults = policy_files(paths)
    read = _Read(faults=faults)
    for file, root in files:
        _read_file(file, root, read)
    if not read.mentions("Fleet", ""):
        first = str(paths[0]) if paths else "."
        hint = "add a file like policies/fleet.yaml, or check its directory too"
        read.faults.append(Fault(first, 1, 1, "there is no document of kind Fleet", hint))
    fleets = [(d, m) for d, m in read.documents if isinstance(m, Fleet)]
    fleet_faults = [f for d, m in fleets for f in _fleet_faults(d, m)]
    read.faults += fleet_faults
    fleet = fleets[0][1].spec if fleets and not fleet_faults else None
    signals = _sound_signals(read, fleets[0][1].spec.matchers if fleets else {})
    policies = _sound_policies(read, signals)
    rules = Rules(policies=policies, signals=signals, fleet=fleet, prefix=prefix) if fleet else None
    if rules:
        rules = _without_bad_queries(read, rules)
        policies = rules.policies
    counts = {"files": len(files), "policies": len(policies), "signals": len(signals), "fleets": int(fleet is not None)}
    return CheckResult(tuple(sorted(set(read.faults))), rules, counts)


# --- Reading ----------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Read:
    """What was read so far."""

    faults: list[Fault]
    documents: list[tuple[StrictDocument, Document]] = field(default_factory=list)  # of the right shape
    roots: dict[str, tuple[Path, Path]] = field(default_factory=dict)  # file → its path and root
    first: dict[tuple[str, str], StrictDocument] = field(default_factory=dict)  # (kind, name), also of broken ones
    unread: list[str] = field(default_factory=list)  # texts of files that are no YAML

    def mentions(self, kind: str, name: str) -> bool:
        """Whether a document of this kind and name (any, if empty) is there, or seems to be in a file that is broken.

        Its absence would be reported as the consequence of a fault that is reported already.
        """
        if any(k == kind and (not name or n == name) for k, n in self.first):
            return True
        wanted = rf"name:\s*[\"']?{re.escape(name)}(?![\w.-])" if name else rf"kind:\s*[\"']?{kind}\b"
        return any(re.search(wanted, text) for text in self.unread)


def _read_file(file: Path, root: Path, read: _Read) -> None:
    text = ""
    try:
        text = read_text(file)
        documents = load_strict(text, str(file))
    except YamlFault as fault:
        read.faults.append(fault_of(fault))
        read.unread.append(text)
        return
    read.roots[str(file)] = (file, root)
    for document in documents:
        _validate(document, read)


def _validate(document: StrictDocument, read: _Read) -> None:
    kind, version = document.data.get("kind"), document.data.get("apiVersion")
    if kind is None or not isinstance(kind, str) or kind not in KINDS:
        meant = closest(kind, list(KINDS)) if isinstance(kind, str) else None
        hint = f"did you mean {meant}?" if meant else f"a document is a {', a '.join(KINDS)}"
        message = "kind is missing" if "kind" not in document.data else f"there is no kind {describe(kind)}"
        read.faults.append(fault_at(document, ("kind",), message, hint))
        return
    twice = _is_second(document, kind, read)
    if version != API_VERSION:
        message = f"apiVersion is {describe(version)}" if "apiVersion" in document.data else "apiVersion is missing"
        read.faults.append(fault_at(document, ("apiVersion",), message, f"write {API_VERSION}"))
        return
    empty = list(_empty(document.data, ()))
    read.faults += [
        fault_at(document, path, f"{dotted(path)} has no value", "give one, or remove the key") for path in empty
    ]
    try:
        # Only the names of the file: pydantic would take those of Python too, and two spellings are one too many.
        model = KINDS[kind].model_validate(document.data, by_alias=True, by_name=False)
    except ValidationError as error:
        read.faults += translate(error, document, KINDS[kind], reported=empty)
        return
    if not twice and not empty:
        read.documents.append((document, model))


def _empty(value: object, path: Path_) -> Iterator[Path_]:
    """Where nothing stands. Nothing in the language means anything; mostly a value was forgotten, or commented out."""
    if value is None:
        yield path
    elif isinstance(value, dict | list):
        for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _empty(inner, (*path, key))


def _is_second(document: StrictDocument, kind: str, read: _Read) -> bool:
    """Whether there is such a document already; if so, that is a fault."""
    metadata = document.data.get("metadata")
    name = metadata.get("name") if isinstance(metadata, dict) else None
    key = (kind, "" if kind == "Fleet" else str(name))
    first = read.first.setdefault(key, document)
    if first is document or (name is None and kind != "Fleet"):
        return False
    what = "a second Fleet" if kind == "Fleet" else f"a second {kind} called {name}"
    place = f"{first.source}:{first.place(('metadata', 'name'))[0]}"
    hint = "there is one to an installation" if kind == "Fleet" else "names are unique among the documents of a kind"
    read.faults.append(fault_at(document, ("metadata", "name"), f"{what}; the first is at {place}", hint))
    return True


# --- What the documents say -------------------------------------------------------------------------------------------


def _fleet_faults(document: StrictDocument, fleet: Fleet) -> list[Fault]:
    return [
        fault
        for number, pool in enumerate(fleet.spec.pools)
        for fault in selector_faults(document, ("spec", "pools", number, "nodeSelector"), pool.node_selector)
    ]


def _sound_signals(read: _Read, matchers: Mapping[str, str]) -> dict[str, SignalSpec]:
    sound = {}
    for document, model in read.documents:
        if isinstance(model, Signal):
            found = list(signal_faults(document, model.spec, matchers))
            read.faults += found
            if not found:
                sound[model.metadata.name] = model.spec
    return sound


def _sound_policies(read: _Read, sound: Mapping[str, SignalSpec]) -> tuple[LoadedPolicy, ...]:
    signals = {m.metadata.name: m.spec for _, m in read.documents if isinstance(m, Signal)}
    revisions: dict[Path, str | None] = {}
    loaded = []
    for document, model in read.documents:
        if not isinstance(model, Policy):
            continue
        found = list(selector_faults(document, ("spec", "nodeSelector"), model.spec.node_selector))
        for path, sentence in contradictions(model.metadata.name, model.spec, signals):
            missing = _missing_signal(path, model, signals)
            if missing is None or not read.mentions("Signal", missing):
                meant = closest(missing, list(signals)) if missing else None
                found.append(fault_at(document, path, sentence, f"did you mean {meant}?" if meant else ""))
        read.faults += found
        if not found and _named(model) <= sound.keys():
            loaded.append(_loaded(document, model, read, revisions))
    return tuple(loaded)


def _named(policy: Policy) -> set[str]:
    """The signals that it names."""
    recovery = policy.spec.recovery
    named = (policy.spec.signal, recovery.load.signal if recovery is not None else None)
    return {name for name in named if name is not None}


def _missing_signal(path: tuple[str, ...], policy: Policy, signals: Mapping[str, SignalSpec]) -> str | None:
    """The signal whose absence a contradiction is about."""
    recovery = policy.spec.recovery
    asked = {
        ("spec", "signal"): policy.spec.signal,
        ("spec", "recovery", "load", "signal"): recovery.load.signal if recovery is not None else None,
    }
    name = asked.get(path)
    return name if name is not None and name not in signals else None


def _loaded(document: StrictDocument, policy: Policy, read: _Read, revisions: dict[Path, str | None]) -> LoadedPolicy:
    file, root = read.roots[document.source]
    if file.parent not in revisions:
        revisions[file.parent] = revision_of(file.parent, root)
    return LoadedPolicy(
        name=policy.metadata.name,
        spec=policy.spec,
        hash=hashlib.sha256(document.text.encode()).hexdigest(),
        text=document.text,
        revision=revisions[file.parent],
        place=f"{document.source}:{document.line}",
    )


def _without_bad_queries(read: _Read, rules: Rules) -> Rules:
    documents = {m.metadata.name: d for d, m in read.documents if isinstance(m, Policy)}
    sound = []
    for policy in rules.policies:
        found = [fault_at(documents[policy.name], ("spec", "trigger"), text) for text in query_faults(policy, rules)]
        read.faults += found
        if not found:
            sound.append(policy)
    return Rules(tuple(sound), rules.signals, rules.fleet, rules.prefix, rules.dismissal)
