"""Policy files → rules, or every fault of every file.

A broken file or document never hides what is wrong, or right, with another.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path

from quarantine.adapters.policyfiles.faults import Fault, Placed, PolicyFaults, fault_at, note_at
from quarantine.adapters.policyfiles.files import policy_files, revision_of
from quarantine.adapters.policyfiles.humane import closest
from quarantine.adapters.policyfiles.reading import Completed, Read, read_files
from quarantine.adapters.policyfiles.semantics import (
    fleet_faults,
    own_query_faults,
    procedure_faults,
    query_faults,
    selector_faults,
    signal_faults,
)
from quarantine.adapters.policyfiles.strictyaml import StrictDocument
from quarantine.core.contradiction import Contradiction
from quarantine.core.contradictions import contradictions, fleet_contradictions, signal_contradictions
from quarantine.core.defaults import Defaults
from quarantine.core.fleet import Fleet, FleetSpec
from quarantine.core.policy import LoadedDocument, LoadedPolicy, Policy, Rules
from quarantine.core.procedure import Procedure, ProcedureSpec
from quarantine.core.shadows import shadowed
from quarantine.core.signal import Signal, SignalSpec

DEFAULT_PREFIX = "quarantine.gpu"


@dataclass(frozen=True, slots=True)
class CheckResult:
    """What a check found. `rules` are made of the sound documents alone; None where there is no sound Fleet."""

    faults: tuple[Fault, ...]  # in the order of file and line
    rules: Rules | None
    counts: Mapping[str, int]  # files read; policies, signals, procedures and fleets that are sound
    notes: tuple[Fault, ...] = ()  # what is worth knowing and no fault
    texts: Mapping[Path, str] = field(default_factory=dict)  # what was read, by file
    documents: Mapping[tuple[str, str], Placed] = field(default_factory=dict)  # by kind and name, those of sound shape
    defaults: str = ""  # the text of the Defaults document


def load_rules(paths: Sequence[Path], *, prefix: str = DEFAULT_PREFIX) -> Rules:
    """The rules in files and directories. Raises PolicyFaults where anything at all is wrong with them."""
    result = check_paths(paths, prefix=prefix)
    if result.faults:
        raise PolicyFaults(result.faults)
    assert result.rules is not None  # noqa: S101  (no fleet is a fault)
    return result.rules


def check_paths(
    paths: Sequence[Path],
    *,
    prefix: str = DEFAULT_PREFIX,
    instead_of: Mapping[Path, str] | None = None,
    former: Mapping[Path, str] | None = None,
) -> CheckResult:
    """Every fault in files and directories, and the rules that the sound documents make. Raises nothing.

    `instead_of` has the text to take for a file in place of what is on disk, by the path in `texts` and in faults;
    `former` that of the Defaults to read it with in place of the present ones, an empty text where there were none.
    """
    files, faults = policy_files(paths)
    read = read_files(files, faults, instead_of or {}, former or {})
    if not read.mentions("Fleet", ""):
        first = str(paths[0]) if paths else "."
        hint = "add a file like policies/fleet.yaml, or check its directory too"
        read.faults.append(Fault(first, 1, 1, "there is no document of kind Fleet", hint))
    fleets = [(d, m) for _, d, m in read.documents if isinstance(m, Fleet)]
    fleet_found = [f for d, m in fleets for f in _fleet_faults(d, m, read)]
    read.faults += fleet_found
    fleet = fleets[0][1].spec if fleets and not fleet_found else None
    signals = _sound_signals(read, fleets[0][1].spec.matchers if fleets else {})
    procedures = _sound_procedures(read)
    revisions: dict[Path, str | None] = {}
    policies = _sound_policies(read, signals, procedures, fleets[0][1].spec if fleets else None, revisions)
    rules = None
    if fleet:
        kept = tuple(_documents(read, revisions))
        rules = Rules(policies, signals, fleet, prefix=prefix, procedures=procedures, documents=kept)
    notes: list[Fault] = []
    if rules:
        rules = _without_bad_queries(read, rules)
        policies = rules.policies
        notes = list(_shadow_notes(read, rules))
    counts = {
        "files": len(files),
        "policies": len(policies),
        "signals": len(signals),
        "procedures": len(procedures),
        "fleets": int(fleet is not None),
    }
    documents: dict[tuple[str, str], Placed] = {
        (model.kind, model.metadata.name): placed for _, placed, model in read.documents
    }
    found = tuple(sorted(set(read.faults)))
    defaults = read.defaults.text if read.defaults is not None else ""
    return CheckResult(found, rules, counts, tuple(sorted(notes)), read.texts, documents, defaults)


# --- What the documents say -------------------------------------------------------------------------------------------


def _fleet_faults(document: Placed, fleet: Fleet, read: Read) -> Iterator[Fault]:
    yield from fleet_faults(document, fleet.spec)
    for found in fleet_contradictions(fleet.spec, _named_signals(read), _named_procedures(read)):
        if not _is_reported(found, read):
            yield _fault(document, found, read)


def _named_signals(read: Read) -> dict[str, SignalSpec]:
    return {m.metadata.name: m.spec for _, _, m in read.documents if isinstance(m, Signal)}


def _named_procedures(read: Read) -> list[str]:
    return [m.metadata.name for _, _, m in read.documents if isinstance(m, Procedure)]


def _is_reported(found: Contradiction, read: Read) -> bool:
    """Whether what is missing is there, and broken: that is one fault, and told."""
    return bool(found.missing) and read.mentions(found.wants, found.missing)


def _sound_procedures(read: Read) -> dict[str, ProcedureSpec]:
    sound = {}
    for _, document, model in read.documents:
        if isinstance(model, Procedure):
            found = list(procedure_faults(document, model.spec))
            read.faults += found
            if not found:
                sound[model.metadata.name] = model.spec
    return sound


def _sound_signals(read: Read, matchers: Mapping[str, str]) -> dict[str, SignalSpec]:
    sound = {}
    for _, document, model in read.documents:
        if isinstance(model, Signal):
            found = list(signal_faults(document, model.spec, matchers))
            found += [_fault(document, fault, read) for fault in signal_contradictions(model.spec)]
            read.faults += found
            if not found:
                sound[model.metadata.name] = model.spec
    return sound


def _sound_policies(
    read: Read,
    sound: Mapping[str, SignalSpec],
    procedures: Mapping[str, ProcedureSpec],
    fleet: FleetSpec | None,
    revisions: dict[Path, str | None],
) -> tuple[LoadedPolicy, ...]:
    signals, named = _named_signals(read), _named_procedures(read)
    loaded = []
    for document, placed, model in read.documents:
        if not isinstance(model, Policy):
            continue
        found = list(selector_faults(placed, ("spec", "nodeSelector"), model.spec.node_selector))
        if model.spec.query is not None:
            found += own_query_faults(placed, model.spec.query, fleet.matchers if fleet else {})
        wrong = contradictions(model.metadata.name, model.spec, signals, fleet, named)
        found += [_fault(placed, c, read) for c in wrong if not _is_reported(c, read)]
        read.faults += found
        usable = _named(model, fleet) <= sound.keys() and procedures.keys() >= set(model.spec.response.procedures)
        if not found and usable:
            loaded.append(_loaded(document, model, read, revisions))
    return tuple(loaded)


def _fault(document: Placed, found: Contradiction, read: Read) -> Fault:
    known = _named_procedures(read) if found.wants == "Procedure" else list(_named_signals(read))
    meant = closest(found.missing, known) if found.missing else None
    sentence = found.sentence
    if isinstance(document, Completed) and document.gives(found.path):
        # What the Defaults give to many policies is one fault, whosever it is.
        sentence = sentence.removeprefix(f"policy {document.data['metadata']['name']}: ")
    return fault_at(document, found.path, sentence, f"did you mean {meant}?" if meant else found.hint)


def _named(policy: Policy, fleet: FleetSpec | None) -> set[str]:
    """The signals that it needs."""
    recovery = policy.spec.recovery
    uptime = fleet.uptime if fleet is not None and policy.spec.grace.boot is not None else None
    named = (policy.spec.signal, recovery.load.signal if recovery is not None else None, uptime)
    return {name for name in named if name is not None}


def _loaded(document: StrictDocument, policy: Policy, read: Read, revisions: dict[Path, str | None]) -> LoadedPolicy:
    # What the Defaults and its procedures say is a part of what it means, so a change of theirs is a change of it.
    used = [read.defaults_of(document)]
    used += [read.first.get(("Procedure", name)) for name in policy.spec.response.procedures]
    text = "---\n".join((document.text, *(other.text for other in used if other is not None)))
    return LoadedPolicy(
        name=policy.metadata.name,
        spec=policy.spec,
        hash=_hash(text),
        text=text,
        revision=_revision(document, read, revisions),
        place=f"{document.source}:{document.line}",
    )


def _documents(read: Read, revisions: dict[Path, str | None]) -> Iterator[LoadedDocument]:
    """Whose versions the trail follows beside the policies. Of each kind there is one: a second is a fault."""
    for kind in (Defaults, Fleet):
        found = ((d, m.metadata.name) for d, _, m in read.documents if isinstance(m, kind))
        for document, name in islice(found, 1):
            yield LoadedDocument(
                name=f"{kind.__name__.lower()}/{name}",
                hash=_hash(document.text),
                text=document.text,
                revision=_revision(document, read, revisions),
                place=f"{document.source}:{document.line}",
            )


def _revision(document: StrictDocument, read: Read, known: dict[Path, str | None]) -> str | None:
    file, root = read.roots[document.source]
    if file.parent not in known:
        known[file.parent] = revision_of(file.parent, root)
    return known[file.parent]


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _without_bad_queries(read: Read, rules: Rules) -> Rules:
    documents = {m.metadata.name: d for _, d, m in read.documents if isinstance(m, Policy)}
    sound = []
    for policy in rules.policies:
        found = [fault_at(documents[policy.name], ("spec", "trigger"), text) for text in query_faults(policy, rules)]
        read.faults += found
        if not found:
            sound.append(policy)
    return replace(rules, policies=tuple(sound))


def _shadow_notes(read: Read, rules: Rules) -> Iterator[Fault]:
    documents = {m.metadata.name: d for _, d, m in read.documents if isinstance(m, Policy)}
    for policy, other in shadowed(rules.policies):
        sentence = f"policy {policy.name} never decides anything: policy {other.name} finds the same, and no later"
        yield note_at(documents[policy.name], ("metadata", "name"), sentence, "remove one, or make this one differ")
