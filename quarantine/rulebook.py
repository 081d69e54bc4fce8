"""The policy files as they change: what is sound is in force, and a broken file stops no other.

A change is taken up once two looks in a row see the same, so that neither a file that is being written nor the swap of
a mounted ConfigMap is taken for an edit. A file counts as a whole, and these rules decide between its versions:

- What is sound in the whole of the files is in force. A deleted file is a sound edit.
- A file with a fault stays as it was accepted last; one that never was accepted is not in force at all. It is read with
  the Defaults that it was accepted with, and goes no further than the present ones let it: what the commit with the
  slip wanted of it is not known. For the same reason no policy begins to act by the word of Defaults that are kept.
- A policy that only a broken file names any more was moved, and not deleted: the file that it was in stays.
- Where files are sound alone and contradict the others (a signal was removed that another file's policy names), the
  changes are tried one by one on what is in force, and those that do not fit stay out.
- A path that is missing, cannot be read or has no policy file any more takes nothing out of force.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path

import structlog

from quarantine.adapters.policyfiles.faults import Fault, PolicyFaults, fault_of
from quarantine.adapters.policyfiles.files import REVISION_FILE, policy_files, revision_of
from quarantine.adapters.policyfiles.loader import check_paths
from quarantine.adapters.policyfiles.strictyaml import YamlFault, read_text
from quarantine.core.rulefiles import BrokenFile, InForce, RuleFile
from quarantine.rulechoice import Choice, Chosen, Look

LOOKS = 5  # at the start, for two in a row that agree


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
        self._taken: Look | None = None
        self._seen: Look | None = None

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

    def _changed(self, look: Look, current: InForce) -> InForce:
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

    def _take(self, look: Look, kept: Mapping[Path, RuleFile]) -> InForce:
        choice = Choice(look, kept, self._prefix)
        rules = choice.made()
        if rules is None:
            faults = check_paths(self._paths, prefix=self._prefix).faults or choice.first.faults
            # That there is no Fleet is said of the first path; where a file is broken, that is the reason.
            raise PolicyFaults(sorted(faults, key=lambda fault: Path(fault.file) in self._paths))
        files = self._versions(choice, look, kept)
        revisions = {one.file: one.revision for one in files}
        policies = tuple(replace(p, revision=revisions[_file_of(p.place)]) for p in rules.policies)
        documents = tuple(replace(d, revision=revisions[_file_of(d.place)]) for d in rules.documents)
        broken = tuple(
            BrokenFile(str(path), str(fault), _since(path, choice.chosen, kept))
            for path, fault in sorted(choice.broken.items())
        )
        return InForce(replace(rules, policies=policies, documents=documents), files, broken)

    def _versions(self, choice: Choice, look: Look, kept: Mapping[Path, RuleFile]) -> tuple[RuleFile, ...]:
        revisions: dict[Path, str | None] = {}
        found = []
        for path, (text, former) in sorted(choice.chosen.items()):
            before = kept.get(path)
            defaults = None if former == choice.defaults else former
            if before is not None and before.text == text and look.texts.get(path) != text:
                found.append(replace(before, defaults=defaults))  # its directory is of another revision by now
                continue
            if path.parent not in revisions:
                revisions[path.parent] = revision_of(path.parent, look.roots[path])
            digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
            at = before.accepted_at if before is not None and before.text == text else self._now()
            found.append(RuleFile(str(path), text, digest, revisions[path.parent], at, defaults))
        return tuple(found)


def _file_of(place: str) -> str:
    return place.rpartition(":")[0]


def _since(path: Path, chosen: Chosen, kept: Mapping[Path, RuleFile]) -> datetime | None:
    """When what is in force of a file, or of the files below a path, was accepted; the newest of them."""
    of_it = [one.accepted_at for at, one in kept.items() if at in chosen and (at == path or path in at.parents)]
    return max(of_it, default=None)


# --- Looking ----------------------------------------------------------------------------------------------------------


def _look(paths: Sequence[Path]) -> Look:
    files, faults = policy_files(paths)
    texts: dict[Path, str] = {}
    unread: dict[Path, Fault] = {}
    told: dict[Path, str] = {}
    for file, root in files:
        try:
            texts[file] = read_text(file)
        except YamlFault as fault:
            unread[file] = fault_of(fault)
        for directory in {file.parent, root}:
            told.setdefault(directory, _first_line(directory / REVISION_FILE))
    return Look(texts, unread, dict(files), tuple(faults), told)


def _first_line(file: Path) -> str:
    try:
        with file.open("rb") as opened:
            return opened.read(200).decode("utf-8", "replace")
    except OSError:
        return ""


def _settled(look: Look, paths: Sequence[Path]) -> Look:
    for _ in range(LOOKS - 1):
        again = _look(paths)
        if again == look:
            break
        look = again
    return look
