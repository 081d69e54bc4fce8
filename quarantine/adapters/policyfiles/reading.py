"""Policy files → documents of the right shape, with the Defaults filled in, and every fault on the way."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from quarantine.adapters.policyfiles.faults import Fault, Placed, fault_at, fault_of
from quarantine.adapters.policyfiles.humane import closest, describe, dotted, translate
from quarantine.adapters.policyfiles.strictyaml import Path_, StrictDocument, YamlFault, load_strict, read_text
from quarantine.core.defaults import Defaults, DefaultsSpec, with_defaults
from quarantine.core.document import API_VERSION
from quarantine.core.policy import KINDS, Document

_SINGLE = {"Fleet", "Defaults"}  # kinds of which there is one


@dataclass(frozen=True, slots=True)
class Completed:
    """A policy's document with what the Defaults document gives to it; each value is where it was written."""

    own: StrictDocument
    defaults: StrictDocument
    data: Any
    layers: tuple[Path_, ...]  # where in the Defaults what they give stands; the first that has a value counts
    former: bool = False  # these Defaults are in no file any more, so that no value can be said to be there

    def locate(self, path: Path_ = (), *, key: bool = False) -> tuple[str, int, int]:
        """(file, line, column), of the Defaults document where the value came from it."""
        if self.gives(path) and (layer := self._layer(path)) is not None:
            return self.defaults.locate((*layer, *path[1:]), key=key)
        return self.own.locate(path, key=key)

    def gives(self, path: Path_) -> bool:
        """Whether the value came from the Defaults document."""
        return not self.former and path[:3] not in self.own.values and self._layer(path) is not None

    def _layer(self, path: Path_) -> Path_ | None:
        """Fields of a policy are given, and fields of those; what is below them comes with them."""
        head = path[1:3] if path[:1] == ("spec",) else ()
        return next((layer for layer in self.layers if head and (*layer, *head) in self.defaults.values), None)


@dataclass(frozen=True, slots=True)
class Former:
    """The Defaults that a file was accepted with, which are not the present ones."""

    document: StrictDocument | None  # None: there were none
    thresholds: Mapping[str, float]


@dataclass(slots=True)
class Read:
    """What was read so far."""

    faults: list[Fault]
    documents: list[tuple[StrictDocument, Placed, Document]] = field(default_factory=list)  # of the right shape
    roots: dict[str, tuple[Path, Path]] = field(default_factory=dict)  # file → its path and root
    texts: dict[Path, str] = field(default_factory=dict)  # of every file that could be read
    first: dict[tuple[str, str], StrictDocument] = field(default_factory=dict)  # (kind, name), also of broken ones
    unread: list[str] = field(default_factory=list)  # texts of files that are no YAML
    defaults: StrictDocument | None = None
    thresholds: Mapping[str, float] = field(default_factory=dict)
    defaults_broken: bool = False
    former: dict[str, Former] = field(default_factory=dict)  # by file, where it is not read with the present Defaults

    def defaults_of(self, document: StrictDocument) -> StrictDocument | None:
        """The Defaults that a document is read with."""
        former = self.former.get(document.source)
        return self.defaults if former is None else former.document

    def mentions(self, kind: str, name: str) -> bool:
        """Whether a document of this kind and name (any, if empty) is there, or seems to be in a file that is broken.

        Its absence would be reported as the consequence of a fault that is reported already.
        """
        if any(k == kind and (not name or n == name) for k, n in self.first):
            return True
        if name:
            return any(mentions(text, name) for text in self.unread)
        return any(re.search(rf"kind:\s*[\"']?{kind}\b", text) for text in self.unread)


def mentions(text: str, name: str) -> bool:
    """Whether a text, of YAML or not, seems to have a document of this name."""
    return re.search(rf"name:\s*[\"']?{re.escape(name)}(?![\w.-])", text) is not None


def read_files(
    files: list[tuple[Path, Path]],
    faults: list[Fault],
    instead_of: Mapping[Path, str],
    former: Mapping[Path, str] | None = None,
) -> Read:
    """Every document of `files`, each a path and the root it was found under.

    `instead_of` has the text to take for a file in place of what it holds, `former` that of the Defaults to read it
    with in place of the present ones; an empty text where there were none.
    """
    read = Read(faults=faults)
    documents = [document for file, root in files for document in _documents(file, root, read, instead_of)]
    kinds = [document for document in documents if _has_known_kind(document, read)]
    ours = [document for document in kinds if document.data["kind"] != "Defaults"]
    for document in kinds:
        if document.data["kind"] == "Defaults":
            _take_defaults(document, read)
    read.defaults_broken |= read.defaults is None and read.mentions("Defaults", "")
    for file, text in (former or {}).items():
        _take_former(file, text, read)
    for document in ours:
        _validate(document, read)
    return read


def _documents(file: Path, root: Path, read: Read, instead_of: Mapping[Path, str]) -> list[StrictDocument]:
    text = ""
    try:
        text = instead_of[file] if file in instead_of else read_text(file)
        read.texts[file] = text
        documents = load_strict(text, str(file))
    except YamlFault as fault:
        read.faults.append(fault_of(fault))
        read.unread.append(text)
        return []
    read.roots[str(file)] = (file, root)
    return documents


def _has_known_kind(document: StrictDocument, read: Read) -> bool:
    kind = document.data.get("kind")
    if isinstance(kind, str) and kind in KINDS:
        return True
    meant = closest(kind, list(KINDS)) if isinstance(kind, str) else None
    hint = f"did you mean {meant}?" if meant else f"a document is a {', a '.join(KINDS)}"
    message = "kind is missing" if "kind" not in document.data else f"there is no kind {describe(kind)}"
    read.faults.append(fault_at(document, ("kind",), message, hint))
    return False


def _take_defaults(document: StrictDocument, read: Read) -> None:
    """Its thresholds are used even where something else of it is wrong: that is one fault, and not many."""
    before = len(read.documents)
    _validate(document, read)
    if read.first["Defaults", ""] is not document:
        return
    read.defaults = document
    if len(read.documents) > before:
        model = read.documents[-1][2]
        assert isinstance(model, Defaults)  # noqa: S101
        read.thresholds = model.spec.thresholds
        return
    read.defaults_broken = True
    spec = document.data.get("spec")
    named = spec.get("thresholds") if isinstance(spec, dict) else None
    if isinstance(named, dict):
        read.thresholds = {k: v for k, v in named.items() if isinstance(v, int | float) and not isinstance(v, bool)}


def _take_former(file: Path, text: str, read: Read) -> None:
    try:
        document = load_strict(text, str(file))[0] if text else None
        thresholds = _defaults(document).thresholds if document is not None else {}
    except (YamlFault, ValidationError):
        # They were sound once, so this program is another one.
        said = "the Defaults that it was accepted with are none any more"
        read.faults.append(Fault(str(file), 1, 1, said, "repair the file; it is read with the present ones then"))
        document, thresholds = None, {}
    read.former[str(file)] = Former(document, thresholds)


def _defaults(document: StrictDocument) -> DefaultsSpec:
    return Defaults.model_validate(document.data, by_alias=True, by_name=False).spec


def _validate(document: StrictDocument, read: Read) -> None:
    kind, version = document.data["kind"], document.data.get("apiVersion")
    twice = _is_second(document, kind, read)
    if version != API_VERSION:
        message = f"apiVersion is {describe(version)}" if "apiVersion" in document.data else "apiVersion is missing"
        read.faults.append(fault_at(document, ("apiVersion",), message, f"write {API_VERSION}"))
        return
    empty = list(_empty(document.data, ()))
    read.faults += [
        fault_at(document, path, f"{dotted(path)} has no value", "give one, or remove the key") for path in empty
    ]
    placed = _completed(document, read)
    former = read.former.get(document.source)
    thresholds = read.thresholds if former is None else former.thresholds
    try:
        # Only the names of the file: pydantic would take those of Python too, and two spellings are one too many.
        model = KINDS[kind].model_validate(
            placed.data, by_alias=True, by_name=False, context={"thresholds": thresholds}
        )
    except ValidationError as error:
        found = translate(error, placed, KINDS[kind], reported=empty, ignored=_consequence_of_defaults(document, read))
        read.faults += [fault for fault in found if not _known(fault, placed, read)]
        return
    needs_broken = former is None and read.defaults_broken and (read.defaults is None or placed.data != document.data)
    if not twice and not empty and not (kind == "Policy" and needs_broken):
        read.documents.append((document, placed, model))


def _completed(document: StrictDocument, read: Read) -> Placed:
    """A policy with the Defaults; anything else as it is."""
    spec, defaults = document.data.get("spec"), read.defaults_of(document)
    if document.data["kind"] != "Policy" or defaults is None or not isinstance(spec, dict):
        return document
    layers = _layers(defaults, spec)
    if not layers:
        return document
    former = document.source in read.former
    mode = _mode(layers.values())
    if former and mode is not None and _mode(_layers(read.defaults, spec).values()) != mode:
        # A file that is kept goes no further than either of the Defaults lets it: whoever lowers the mode means it.
        layers = {place: {k: v for k, v in given.items() if k != "mode"} for place, given in layers.items()}
    for given in layers.values():
        spec = with_defaults(spec, given)
    return Completed(document, defaults, {**document.data, "spec": spec}, tuple(layers), former)


def _layers(defaults: StrictDocument | None, spec: Mapping[str, Any]) -> dict[Path_, dict[str, Any]]:
    """What a Defaults document gives to a policy, by where it stands: first for its severity, then for all."""
    shared = defaults.data.get("spec") if defaults is not None else None
    if not isinstance(shared, dict):
        return {}
    for_all = shared.get("policy")
    severity = spec.get("severity", for_all.get("severity") if isinstance(for_all, dict) else None)
    severities = shared.get("severities")
    own = severities.get(severity) if isinstance(severities, dict) and isinstance(severity, str) else None
    found = {("spec", "severities", str(severity)): own, ("spec", "policy"): for_all}
    return {place: given for place, given in found.items() if isinstance(given, dict) and given}


def _mode(layers: Iterable[Mapping[str, Any]]) -> object:
    return next((given["mode"] for given in layers if "mode" in given), None)


def _consequence_of_defaults(document: StrictDocument, read: Read) -> Callable[[ErrorDetails], bool]:
    """Whether an error of a policy only follows from Defaults that are broken, which is reported already."""

    def consequence(detail: ErrorDetails) -> bool:
        unnamed = detail["type"] == "value_error" and "no threshold is called" in detail["msg"]
        return unnamed or (read.defaults is None and detail["type"] == "missing")

    ours = document.data["kind"] == "Policy" and document.source not in read.former
    return consequence if read.defaults_broken and ours else lambda _: False


def _known(fault: Fault, placed: Placed, read: Read) -> bool:
    """Whether it is a fault of the Defaults, told once already: by them, or by another policy that they go into."""
    if not isinstance(placed, Completed) or placed.former or fault.file != placed.defaults.source:
        return False
    start = placed.defaults.line
    within = start <= fault.line < start + placed.defaults.text.count("\n")
    return within and (read.defaults_broken or any((f.file, f.line) == (fault.file, fault.line) for f in read.faults))


def _empty(value: object, path: Path_) -> Iterator[Path_]:
    """Where nothing stands. Nothing in the language means anything; mostly a value was forgotten, or commented out."""
    if value is None:
        yield path
    elif isinstance(value, dict | list):
        for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _empty(inner, (*path, key))


def _is_second(document: StrictDocument, kind: str, read: Read) -> bool:
    """Whether there is such a document already; if so, that is a fault."""
    metadata = document.data.get("metadata")
    name = metadata.get("name") if isinstance(metadata, dict) else None
    single = kind in _SINGLE
    key = (kind, "" if single else str(name))
    first = read.first.setdefault(key, document)
    if first is document or (name is None and not single):
        return False
    what = f"a second {kind}" if single else f"a second {kind} called {name}"
    place = f"{first.source}:{first.place(('metadata', 'name'))[0]}"
    hint = "there is one to an installation" if single else "names are unique among the documents of a kind"
    read.faults.append(fault_at(document, ("metadata", "name"), f"{what}; the first is at {place}", hint))
    return True
