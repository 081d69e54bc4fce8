"""Which version of each policy file is in force; the rules are in `rulebook`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from quarantine.adapters.policyfiles.faults import Fault
from quarantine.adapters.policyfiles.loader import CheckResult, check_paths
from quarantine.adapters.policyfiles.reading import Completed, mentions
from quarantine.core.model import Mode
from quarantine.core.policy import Rules
from quarantine.core.rulefiles import RuleFile

MOST_TRIED = 10  # changes that contradict what is in force are tried one by one up to this number; else none is taken
PASSES = 2  # a change may fit once another one is in


@dataclass(frozen=True, slots=True)
class Look:
    """What is on disk. Two that are equal mean the same rules."""

    texts: Mapping[Path, str]  # of the files that can be read
    unread: Mapping[Path, Fault]
    roots: Mapping[Path, Path]  # file → the path of the settings that led to it
    faults: tuple[Fault, ...]  # of paths, not of files
    told: Mapping[Path, str]  # revision files


class Version(NamedTuple):
    """Of a file. `former`: the Defaults to read it with, where they are not those of the files beside it."""

    text: str
    former: str | None = None


Chosen = dict[Path, Version]


class Choice:
    """Which version of each file is in force, given what is on disk and what was in force before."""

    def __init__(self, look: Look, kept: Mapping[Path, RuleFile], prefix: str) -> None:
        self.look = look
        self.prefix = prefix
        self.broken: dict[Path, Fault] = {**look.unread, **{Path(fault.file): fault for fault in look.faults}}
        self.kept: Chosen = {path: Version(one.text, one.defaults) for path, one in kept.items()}
        self.wanted: Chosen = {path: Version(text) for path, text in look.texts.items()}
        self.wanted |= {path: self._held(path) for path in kept if self._not_deleted(path)}
        self.chosen: Chosen = {}
        self.defaults = ""  # the text of those among what is chosen
        self.first = self._check(self.wanted)

    def _not_deleted(self, file: Path) -> bool:
        """Whether a file cannot be read, or be looked for: what should be a directory above it is none, or is empty."""
        look = self.look
        if file in look.texts:
            return False
        no_directory = look.roots.keys() | self.broken.keys()
        return file in look.unread or not look.texts or any(parent in no_directory for parent in file.parents)

    @cached_property
    def _before(self) -> CheckResult:
        """What is in force."""
        return self._asked(self.kept)

    def _held(self, path: Path) -> Version:
        """What is in force of a file, for it to stay whatever becomes of the Defaults."""
        text, former = self.kept[path]
        return Version(text, self._before.defaults if former is None else former)

    def _unchanged(self, path: Path, chosen: Chosen) -> bool:
        if path not in self.kept or path not in chosen:
            return path not in self.kept and path not in chosen
        return chosen[path] in (self.kept[path], self._held(path))

    def made(self) -> Rules | None:
        """The rules of the versions that it chooses; None where there is no Fleet among them."""
        result = self._without_the_faulty(self.wanted, self.first)
        if result.faults:
            result = self._one_by_one()
        if self.broken:
            result = self._with_the_moved(result)
        self.defaults = result.defaults
        return result.rules

    def _without_the_faulty(self, chosen: Chosen, result: CheckResult) -> CheckResult:
        """As long as a file that changed has a fault, its change stays out."""
        self.chosen = dict(chosen)
        while result.faults:
            faulty = [path for path in self._places(result) if not self._unchanged(path, self.chosen)]
            if not faulty:
                break
            for path in faulty:
                self._leave(path, self._places(result)[path])
            result = self._check(self.chosen)
        return result

    def _one_by_one(self) -> CheckResult:
        """From what is in force, each change that fits: what is left are contradictions between sound files."""
        result = self._base()
        changes = sorted(p for p in self.wanted.keys() | self.kept.keys() if self.wanted.get(p) != self.chosen.get(p))
        if len(changes) > MOST_TRIED:
            fault = next(iter(self._check(self.wanted).faults))
            self.broken.update((path, _contradiction(path, fault)) for path in changes)
            return result
        for _ in range(PASSES):
            for path in [path for path in changes if self.wanted.get(path) != self.chosen.get(path)]:
                tried = self._check(self._with(path))
                if tried.faults:
                    self.broken[path] = _contradiction(path, tried.faults[0])
                    continue
                result, self.chosen = tried, self._with(path)
                self.broken.pop(path, None)
        return result

    def _base(self) -> CheckResult:
        """What is in force, without what this version of the program does not take any more."""
        self.chosen = {p: self.kept[p] if self._as_on_disk(p) else self._held(p) for p in self.kept}
        result = self._check(self.chosen)
        while result.faults and (faulty := [p for p in self._places(result) if p in self.chosen]):
            for path in faulty:
                self.broken[path] = self._places(result)[path]
                del self.chosen[path]
            result = self._check(self.chosen)
        return result

    def _as_on_disk(self, path: Path) -> bool:
        return self.look.texts.get(path) == self.kept[path].text

    def _with(self, path: Path) -> Chosen:
        others = {file: version for file, version in self.chosen.items() if file != path}
        return {**others, path: self.wanted[path]} if path in self.wanted else others

    def _leave(self, path: Path, fault: Fault) -> None:
        self.broken.setdefault(path, fault)
        if path in self.kept:
            self.chosen[path] = self._held(path)
        else:
            self.chosen.pop(path, None)

    def _with_the_moved(self, result: CheckResult) -> CheckResult:
        """A policy that only a broken file names any more was moved with a slip, and not deleted: its file stays."""
        names = {policy.name for policy in result.rules.policies} if result.rules is not None else set()
        before = self._before.rules.policies if self._before.rules is not None else ()
        for policy in before:
            path = Path(policy.place.rpartition(":")[0])
            to = next((p for p in sorted(self.broken) if mentions(self.look.texts.get(p, ""), policy.name)), None)
            if policy.name in names or to is None or path in self.broken:
                continue
            chosen = {**self.chosen, path: self._held(path)}
            tried = self._check(chosen)
            if not tried.faults:
                said = f"it had policy {policy.name}, which only {to} names any more, and that file is broken"
                self.broken[path] = Fault(str(path), 1, 1, said, f"repair {to}")
                result, self.chosen = tried, chosen
        return result

    def _check(self, chosen: Chosen) -> CheckResult:
        result = self._asked(chosen)
        faults = sorted({*result.faults, *self._rising(result, chosen)})
        return replace(result, faults=tuple(faults))

    def _rising(self, result: CheckResult, chosen: Chosen) -> Iterator[Fault]:
        """Policies that would act now by the word of Defaults that are kept: the present ones may say otherwise."""
        shared = next((placed for (kind, _), placed in result.documents.items() if kind == "Defaults"), None)
        if shared is None or result.rules is None or self._before.rules is None:
            return
        file = Path(shared.locate()[0])
        if self.look.texts.get(file) == chosen[file].text:
            return
        acted = {policy.name for policy in self._before.rules.policies if policy.spec.mode is Mode.ENFORCE}
        for policy in result.rules.policies:
            document = result.documents["Policy", policy.name]
            told_by_them = isinstance(document, Completed) and document.gives(("spec", "mode"))
            if told_by_them and policy.spec.mode is Mode.ENFORCE and policy.name not in acted:
                place, _, line = policy.place.rpartition(":")
                said = (
                    f"policy {policy.name} would be told to enforce by Defaults whose present version is not in force"
                )
                yield Fault(place, int(line), 1, said, f"repair {file}, or write the policy's mode into the policy")

    def _asked(self, chosen: Chosen) -> CheckResult:
        texts = {path: version.text for path, version in chosen.items()}
        former = {path: version.former for path, version in chosen.items() if version.former is not None}
        return check_paths(sorted(texts), prefix=self.prefix, instead_of=texts, former=former)

    @staticmethod
    def _places(result: CheckResult) -> dict[Path, Fault]:
        """The first fault of each file."""
        found: dict[Path, Fault] = {}
        for fault in result.faults:
            found.setdefault(Path(fault.file), fault)
        return found


def _contradiction(path: Path, fault: Fault) -> Fault:
    message = f"it does not fit the other files: {fault.message}"
    return fault if Path(fault.file) == path else replace(fault, message=message)
