"""The policy files as they change: what is sound is in force, and a broken file stops no other.

A change is taken up once two looks in a row see the same, so that neither a file that is being written nor the swap of
a mounted ConfigMap is taken for an edit. A file counts as a whole, and these rules decide between its versions:

- What is sound in the whole of the files is in force. A deleted file is a sound edit.
- A file with a fault stays as it was accepted last; one that never was accepted is not in force at all. It is read with
  the Defaults that it was accepted with: what the commit with the slip wanted of it is not known.
- Where files are sound alone and contradict the others (a signal was removed that another file's policy names), the
  changes are tried one by one on what is in force, and those that do not fit stay out.
- A path that is missing, cannot be read or has no policy file any more takes nothing out of force.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import structlog

from quarantine.adapters.policyfiles.faults import Fault, PolicyFaults, fault_of
from quarantine.adapters.policyfiles.files import REVISION_FILE, policy_files, revision_of
from quarantine.adapters.policyfiles.loader import CheckResult, check_paths
from quarantine.adapters.policyfiles.reading import mentions
from quarantine.adapters.policyfiles.strictyaml import YamlFault, read_text
from quarantine.core.policy import Rules
from quarantine.core.rulefiles import BrokenFile, InForce, RuleFile

MOST_TRIED = 10  # changes that contradict what is in force are tried one by one up to this number; else none is taken
PASSES = 2  # a change may fit once another one is in
LOOKS = 5  # at the start, for two in a row that agree

Texts = dict[Path, str]


class Version(NamedTuple):
    """Of a file. `former`: the Defaults to read it with, where they are not those of the files beside it."""

    text: str
    former: str | None = None


Chosen = dict[Path, Version]


@dataclass(frozen=True, slots=True)
class _Look:
    """What is on disk. Two that are equal mean the same rules."""

    texts: Mapping[Path, str]  # of the files that can be read
    unread: Mapping[Path, Fault]
    roots: Mapping[Path, Path]  # file → the path of the settings that led to it
    faults: tuple[Fault, ...]  # of paths, not of files
    told: Mapping[Path, str]  # revision files


class PolicyFiles:
    """Implements `ports.Rulebook`. `accepted` gives what was in force when the process before this one ended."""

    def __init__(
        self,
        paths: Sequence[Path],
        *,
        prefix: str,
        now: Callable[[], datetime],
        accepted: Callable[[], Iterable[RuleFile]],
    ) -> None:
        self._paths = paths
        self._prefix = prefix
        self._now = now
        self._accepted = accepted
        self._current: InForce | None = None
        self._taken: _Look | None = None
        self._seen: _Look | None = None

    def read(self) -> InForce:
        """What is in force now, and the same object as before where nothing changed.

        Raises PolicyFaults where no sound Fleet was ever accepted, and LedgerUnavailable at its first call.
        """
        look = _look(self._paths)
        if self._current is None:
            kept = {Path(one.file): one for one in self._accepted() if self._leads_to(Path(one.file))}
            look = _settled(look, self._paths)
            self._current, self._taken = self._take(look, kept), look
        elif look != self._taken and look == self._seen:
            self._current, self._taken = self._changed(look, self._current), look
        self._seen = look
        return self._current

    def _changed(self, look: _Look, current: InForce) -> InForce:
        kept = {Path(one.file): one for one in current.files}
        try:
            return self._take(look, kept)
        except Exception as error:
            # Whatever an edit makes this program do, what was in force before it goes on.
            log = structlog.get_logger()
            log.exception("a defect was met in a policy file; please report it with this traceback")
            said = f"checking it met a defect of this program ({type(error).__name__}), which is in the log"
            edited = sorted(path for path, text in look.texts.items() if path not in kept or kept[path].text != text)
            broken = (BrokenFile(str(p), said, kept[p].accepted_at if p in kept else None) for p in edited)
            return replace(current, broken=tuple(broken))

    def _leads_to(self, file: Path) -> bool:
        return any(path == file or path in file.parents for path in self._paths)

    def _take(self, look: _Look, kept: Mapping[Path, RuleFile]) -> InForce:
        choice = _Choice(look, kept, self._prefix)
        rules = choice.made()
        if rules is None:
            faults = check_paths(self._paths, prefix=self._prefix).faults or choice.first.faults
            # That there is no Fleet is said of the first path; where a file is broken, that is the reason.
            raise PolicyFaults(sorted(faults, key=lambda fault: Path(fault.file) in self._paths))
        files = self._versions(choice, look, kept)
        revisions = {one.file: one.revision for one in files}
        policies = tuple(replace(p, revision=revisions[p.place.rpartition(":")[0]]) for p in rules.policies)
        broken = tuple(
            BrokenFile(str(path), str(fault), _since(path, choice.chosen, kept))
            for path, fault in sorted(choice.broken.items())
        )
        return InForce(replace(rules, policies=policies), files, broken)

    def _versions(self, choice: _Choice, look: _Look, kept: Mapping[Path, RuleFile]) -> tuple[RuleFile, ...]:
        revisions: dict[Path, str | None] = {}
        found = []
        for path, (text, former) in sorted(choice.chosen.items()):
            before = kept.get(path)
            if before is not None and before.text == text and look.texts.get(path) != text:
                # Its directory is of another revision by now.
                found.append(replace(before, defaults=None if former == choice.defaults else former))
                continue
            if path.parent not in revisions:
                revisions[path.parent] = revision_of(path.parent, look.roots[path])
            digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
            at = before.accepted_at if before is not None and before.text == text else self._now()
            found.append(RuleFile(str(path), text, digest, revisions[path.parent], at))
        return tuple(found)


def _since(path: Path, chosen: Chosen, kept: Mapping[Path, RuleFile]) -> datetime | None:
    """When what is in force of a file, or of the files below a path, was accepted; the newest of them."""
    of_it = [one.accepted_at for at, one in kept.items() if at in chosen and (at == path or path in at.parents)]
    return max(of_it, default=None)


# --- Looking ----------------------------------------------------------------------------------------------------------


def _look(paths: Sequence[Path]) -> _Look:
    files, faults = policy_files(paths)
    texts: Texts = {}
    unread: dict[Path, Fault] = {}
    told: dict[Path, str] = {}
    for file, root in files:
        try:
            texts[file] = read_text(file)
        except YamlFault as fault:
            unread[file] = fault_of(fault)
        for directory in {file.parent, root}:
            told.setdefault(directory, _first_line(directory / REVISION_FILE))
    return _Look(texts, unread, dict(files), tuple(faults), told)


def _first_line(file: Path) -> str:
    try:
        with file.open("rb") as opened:
            return opened.read(200).decode("utf-8", "replace")
    except OSError:
        return ""


def _settled(look: _Look, paths: Sequence[Path]) -> _Look:
    for _ in range(LOOKS - 1):
        again = _look(paths)
        if again == look:
            break
        look = again
    return look


# --- Choosing ---------------------------------------------------------------------------------------------------------


class _Choice:
    """Which version of each file is in force, given what is on disk and what was in force before."""

    def __init__(self, look: _Look, kept: Mapping[Path, RuleFile], prefix: str) -> None:
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
        return self._check(self.kept)

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
