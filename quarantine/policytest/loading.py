"""Test files → tests that can be run, or every fault of every file."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

from pydantic import ValidationError

from quarantine.adapters.policyfiles.faults import Fault, PolicyFaults, fault_at, fault_of
from quarantine.adapters.policyfiles.files import policy_files
from quarantine.adapters.policyfiles.humane import closest, describe, translate
from quarantine.adapters.policyfiles.loader import load_rules
from quarantine.adapters.policyfiles.strictyaml import Path_, StrictDocument, YamlFault, load_strict, read_text
from quarantine.core.document import API_VERSION
from quarantine.core.errors import UsageError
from quarantine.core.policy import LoadedPolicy, Rules
from quarantine.core.rehearsal import as_enforced
from quarantine.policytest.format import PREFIX, Case, PolicyTest
from quarantine.policytest.history import History, Report, history

MAX_FILES = 1000
_TEST = re.compile(r".*_test\.ya?ml")
_FLEET = re.compile(r"^kind:\s*[\"']?Fleet\b", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Test:
    """One test, ready to be run."""

    __test__ = False  # pytest: this is no class of tests

    case: Case
    document: PolicyTest
    rules: Rules  # the policy on trial alone, as if it enforced
    history: History
    file: str
    line: int

    @property
    def policy(self) -> LoadedPolicy:
        """The one on trial."""
        return self.rules.policies[0]


@dataclass(frozen=True, slots=True)
class TestFile:
    """One file of tests."""

    __test__ = False

    path: str
    policy: str
    tests: tuple[Test, ...]


def load(paths: Sequence[Path]) -> list[TestFile]:
    """The tests in files and directories.

    Raises PolicyFaults where anything at all is wrong with them, or with the policies beside them; UsageError where
    there is nothing to run.
    """
    rules: dict[Path, Rules] = {}
    faults: list[Fault] = []
    files = []
    for file, within in _test_files(paths):
        try:
            root = _root(file, within)
            if root not in rules:
                rules[root] = load_rules([root])
            files.append(_file(file, rules[root], root))
        except PolicyFaults as error:
            faults += error.faults
    if faults:
        raise PolicyFaults(sorted(set(faults)))
    return files


# --- Which files, and with which policies -----------------------------------------------------------------------------


def _test_files(paths: Sequence[Path]) -> Iterator[tuple[Path, Path]]:
    """Each test file once, with the directory that it was found under."""
    seen = set()
    for path in paths:
        if path.is_dir():
            found = sorted(p for p in islice(path.rglob("*_test.y*ml"), MAX_FILES) if _TEST.fullmatch(p.name))
            visible = [p for p in found if not any(part.startswith(".") for part in p.relative_to(path).parts)]
            if not visible:
                raise UsageError(f"there is no test in {path}: a test's file is named like gpu-hot_test.yaml")
            pairs = [(p, path) for p in visible]
        elif not path.exists():
            raise UsageError(f"there is no file or directory {path}: check the path")
        elif not _TEST.fullmatch(path.name):
            raise UsageError(f"{path} is no test: its name must end in _test.yaml")
        else:
            pairs = [(path, path.parent)]
        for file, within in pairs:
            if (real := file.resolve()) not in seen:
                seen.add(real)
                yield file, within


def _root(file: Path, within: Path) -> Path:
    """The directory whose policies count: the one given where it has the Fleet, else the nearest above that has it."""
    files, _ = policy_files([within])
    if any(_has_fleet(path) for path, _ in files):
        return within
    for directory in list(within.absolute().parents)[:10]:
        if any(_has_fleet(path) for path in sorted(directory.glob("*.y*ml")) if not _TEST.fullmatch(path.name)):
            return directory
    hint = "keep the test beside its policies, or give their directory"
    raise PolicyFaults([Fault(str(file), 1, 1, "there is no document of kind Fleet beside it or above it", hint)])


def _has_fleet(path: Path) -> bool:
    try:
        return _FLEET.search(read_text(path)) is not None
    except YamlFault:
        return False  # the loader says what is wrong with it


# --- One file ---------------------------------------------------------------------------------------------------------


def _file(path: Path, rules: Rules, root: Path) -> TestFile:
    document, model = _document(path)
    spec = model.spec
    policy = rules.policy(spec.policy)
    if policy is None:
        known = [p.name for p in rules.policies]
        meant = closest(spec.policy, known)
        message = f"there is no policy called {spec.policy} in {root}"
        raise PolicyFaults([fault_at(document, ("spec", "policy"), message, f"did you mean {meant}?" if meant else "")])
    faults: list[Fault] = []

    def report(where: Path_, sentence: str) -> None:
        faults.append(fault_at(document, where, sentence, key=True))

    alone = as_enforced(replace(rules, policies=(policy,)))
    tests = []
    names = [case.name for case in spec.tests]
    for number, case in enumerate(spec.tests):
        if case.name in names[:number]:
            report(("spec", "tests", number, "name"), f"a second test has the name {case.name!r}: names must differ")
        _check_nodes(model, number, report)
        made = history(spec, number, rules.fleet.matchers, report)
        line, _ = document.place(("spec", "tests", number))
        tests.append(Test(case, model, alone, made, str(path), line))
    if faults:
        raise PolicyFaults(faults)
    return TestFile(str(path), policy.name, tuple(tests))


def _document(path: Path) -> tuple[StrictDocument, PolicyTest]:
    try:
        documents = load_strict(read_text(path), str(path))
    except YamlFault as fault:
        raise PolicyFaults([fault_of(fault)]) from None
    document = documents[0]
    if len(documents) > 1:
        raise PolicyFaults([fault_at(documents[1], (), "a second document begins here", "keep one to a file")])
    for key, wanted in (("apiVersion", API_VERSION), ("kind", "PolicyTest")):
        if (found := document.data.get(key)) != wanted:
            message = f"{key} is {describe(found)}" if key in document.data else f"{key} is missing"
            raise PolicyFaults([fault_at(document, (key,), message, f"write {wanted}")])
    try:
        return document, PolicyTest.model_validate(document.data, by_alias=True, by_name=False)
    except ValidationError as error:
        raise PolicyFaults(translate(error, document, PolicyTest)) from None


def _check_nodes(model: PolicyTest, number: int, report: Report) -> None:
    """Every machine that a test names is one that it has."""
    case = model.spec.tests[number]
    machines = case.machines or model.spec.machines
    path: Path_ = ("spec", "tests", number)
    named: list[tuple[Path_, str | None]] = [((*path, "node"), case.node)]
    named += [((*path, "nodes", name), name) for name in case.nodes]
    named += [((*path, "others", i, "node"), other.node) for i, other in enumerate(case.others)]
    for where, name in named:
        if name is not None and int(name.removeprefix(PREFIX)) > machines.count:
            report(where, f"there is no {name}: the test has {machines.count} machines")
