"""The image as far as it can be seen without an engine: what it is made of, and that its steps do what they say."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import sysconfig
import tomllib
from fnmatch import fnmatch
from importlib.metadata import PackagePath, distribution
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from quarantine import __version__
from tests.k8s.conftest import container_of, overlay, pod_of
from tests.k8s.steps import OWN_PYTHON, ROOT, Bench, read

ARGUMENTS, STAGES = read()
WHEEL, ENVIRONMENT, IMAGE = STAGES
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All steps but the downloads: the packages are those of this environment, which come from the same lock."""
    known = sysconfig.get_path("purelib")
    add = (
        "/opt/quarantine/bin/python -c 'import site, pathlib; "
        f'pathlib.Path(site.getsitepackages()[0], "locked.pth").write_text("{known}")\''
    )
    bench = Bench(tmp_path_factory.mktemp("image"), {**OWN_PYTHON, "--requirement /locks/controller.txt": add})
    image = bench.build()
    assert len(bench.done) == sum(len(stage.of("RUN")) for stage in STAGES)
    return image


def call(image: Path, *arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """As the image starts it: by its interpreter, with its variables and nothing else of this machine's."""
    variables = dict(word.split("=", 1) for word in shlex.split(IMAGE.of("ENV")[0]) if not word.startswith("PATH="))
    command = [str(image / "opt/quarantine/bin/python"), "-m", "quarantine", *arguments]
    env = {"PATH": os.environ["PATH"], **variables, "HOME": str(cwd)}
    return subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, check=False, timeout=60)


def test_it_starts_and_migrates_and_has_the_policies(built: Path, tmp_path: Path) -> None:
    assert call(built, "--version", cwd=tmp_path).stdout == f"quarantine {__version__}\n"
    assert "Usage: " in call(built, *IMAGE.words("CMD"), cwd=tmp_path).stdout
    url = f"sqlite:///{tmp_path}/ledger.db"
    assert "went from empty" in call(built, "db", "upgrade", "--database-url", url, cwd=tmp_path).stdout
    [packaged] = (built / "opt/quarantine/lib").glob("python3.*/site-packages/quarantine/_policies")
    assert {p.name for p in packaged.glob("*.yaml")} == {p.name for p in (ROOT / "policies").glob("*.yaml")}


def test_nothing_is_written_when_it_runs(built: Path, tmp_path: Path) -> None:
    """Its root filesystem may be read-only: every module is compiled already."""
    before = {path: path.stat().st_mtime_ns for path in (built / "opt").rglob("*")}
    assert call(built, "plan", "--help", cwd=tmp_path).returncode == 0
    assert {path: path.stat().st_mtime_ns for path in (built / "opt").rglob("*")} == before
    sources = list((built / "opt/quarantine/lib").glob("python3.*/site-packages/quarantine/**/*.py"))
    compiled = list((built / "opt/quarantine/lib").glob("python3.*/site-packages/quarantine/**/*.pyc"))
    assert len(compiled) == len(sources) > 100


def test_the_base_is_one_and_says_its_version() -> None:
    """By no tag that moves: the patch and the distribution are named. A digest may follow."""
    assert {stage.base for stage in STAGES} == {"${BASE}"}
    base = r"docker\.io/library/python:(\d+\.\d+)\.\d+-slim-[a-z]+(@sha256:[0-9a-f]{64})?"
    found = re.fullmatch(base, ARGUMENTS["BASE"])
    assert found is not None
    minor = int(found[1].partition(".")[2])
    lowest, above = (int(n) for n in re.findall(r"3\.(\d+)", PROJECT["requires-python"]))
    assert lowest <= minor < above


def test_what_is_installed_is_locked_by_hash() -> None:
    for stage in STAGES:
        for text in stage.of("RUN"):
            if "pip" in text and " install " in text:
                assert ("--require-hashes" in text and "--only-binary=:all:" in text) or (
                    "--no-deps" in text and "--no-index" in text
                )
            assert "apt-get" not in text, "no compiler, nor what else a base's packages bring"


LOCKED = {
    canonicalize_name(found[1])
    for line in (ROOT / "locks/controller.txt").read_text(encoding="utf-8").splitlines()
    if (found := re.match(r"([A-Za-z0-9._-]+)==", line)) and "sys_platform == 'win32'" not in line
}
HEAVY_MB = 170  # of all that is locked, without what is compiled at the build; 152 when it was measured


def test_what_is_installed_is_what_the_controller_needs() -> None:
    """No test, build or sandbox tool, no library of charts; and small. By what the same lock installed here."""
    groups = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["dependency-groups"]
    given = [*groups.values(), *PROJECT["optional-dependencies"].values()]
    tools = {canonicalize_name(Requirement(one).name) for group in given for one in group if isinstance(one, str)}
    assert LOCKED & tools <= {"markdown-it-py"}, "which `rich` needs as well"
    sizes = {name: sum(map(size, distribution(name).files or ())) for name in LOCKED}
    assert all(sizes.values()), "the lock and this environment have gone apart"
    total = sum(sizes.values()) / 1e6
    assert total < HEAVY_MB, sorted(sizes.items(), key=lambda one: -one[1])[:5]


def size(file: PackagePath) -> int:
    """In bytes; 0 of what this machine has compiled."""
    there = Path(str(file.locate()))
    return there.stat().st_size if there.suffix != ".pyc" and there.is_file() else 0


def test_the_image_has_the_environment_alone() -> None:
    assert IMAGE.of("COPY") == ["--from=environment /opt/quarantine /opt/quarantine"]
    assert IMAGE.words("ENTRYPOINT") == ["quarantine"]
    assert IMAGE.of("ENV")[0].startswith("PATH=/opt/quarantine/bin:")


def test_its_user_and_port_are_those_of_the_deployment() -> None:
    user, _, group = IMAGE.of("USER")[0].partition(":")
    kept = pod_of(overlay("observe"))["spec"]["securityContext"]
    assert (int(user), int(group)) == (kept["runAsUser"], kept["runAsGroup"])
    assert [int(port) for port in IMAGE.of("EXPOSE")] == [container_of(overlay("observe"))["ports"][0]["containerPort"]]
    names = [step.name for step in IMAGE.steps]
    assert "RUN" not in names[names.index("USER") :], "nothing is changed once it is nobody"


def test_each_source_is_there_and_sent_to_the_build() -> None:
    lines = (ROOT / ".dockerignore").read_text(encoding="utf-8").split()
    sent = [line.removeprefix("!").rstrip("/") for line in lines if line.startswith("!")]
    copied = set()
    for stage in STAGES:
        for text in stage.of("COPY"):
            *sources, _ = shlex.split(text)
            if not sources[0].startswith("--from="):
                copied |= {source.rstrip("/") for source in sources}
    for source in copied:
        assert (ROOT / source).exists()
        assert any(source == name or source.startswith(f"{name}/") for name in sent), source
    assert all(any(fnmatch(source, f"{name}*") for source in copied) for name in sent), "nothing more is sent"


# --- The workflow that builds it --------------------------------------------------------------------------------------

WORKFLOW = yaml.safe_load((ROOT / ".github/workflows/image.yml").read_text(encoding="utf-8"))


def test_the_workflow_builds_this_file_and_writes_only_where_it_pushes() -> None:
    assert WORKFLOW["permissions"] == {"contents": "read"}
    pushing = [name for name, job in WORKFLOW["jobs"].items() if "packages" in job.get("permissions", {})]
    assert pushing == ["push"]
    assert "github.ref" in WORKFLOW["jobs"]["push"]["if"]
    for job in WORKFLOW["jobs"].values():
        builds = [step for step in job["steps"] if "build-push-action" in step.get("uses", "")]
        assert [step["with"]["file"] for step in builds] == ["Containerfile"]
        for step in job["steps"]:
            assert "${{" not in step.get("run", ""), "no text of an event is run by a shell"
            if "uses" in step:
                assert re.search(r"@(v\d+|[0-9a-f]{40})$", step["uses"])


def test_the_workflow_builds_on_a_digest_and_pushes_on_the_same() -> None:
    build, push = WORKFLOW["jobs"]["build"], WORKFLOW["jobs"]["push"]
    assert push["needs"] == "build"
    assert build["outputs"] == {"base": "${{ steps.base.outputs.base }}"}
    for job, base in ((build, "steps.base"), (push, "needs.build")):
        [step] = [step for step in job["steps"] if "build-push-action" in step.get("uses", "")]
        assert step["with"]["build-args"] == f"BASE=${{{{ {base}.outputs.base }}}}"


@pytest.mark.parametrize(("digest", "code"), [(f"sha256:{'0' * 64}", 0), ("", 1), ("error", 1)])
def test_the_workflow_s_way_to_the_digest(tmp_path: Path, digest: str, code: int) -> None:
    """With a stand-in for docker, which says what it was asked."""
    [step] = [step for step in WORKFLOW["jobs"]["build"]["steps"] if step.get("id") == "base"]
    (tmp_path / "docker").write_text(f'#!/bin/sh\necho "$@" > {tmp_path}/asked\necho {digest}\n')
    (tmp_path / "docker").chmod(0o755)
    output = tmp_path / "output"
    env = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "GITHUB_OUTPUT": str(output), "GITHUB_STEP_SUMMARY": "/dev/null"}
    done = subprocess.run(["bash", "-eo", "pipefail", "-c", step["run"]], cwd=ROOT, env=env, check=False)
    assert done.returncode == code
    asked = (tmp_path / "asked").read_text().strip()
    assert asked == f"buildx imagetools inspect {ARGUMENTS['BASE']} --format {{{{.Manifest.Digest}}}}"
    if code == 0:
        assert output.read_text() == f"base={ARGUMENTS['BASE']}@{digest}\n"
    assert output.exists() == (code == 0)


def test_the_workflow_starts_what_it_built_as_the_deployment_does() -> None:
    runs = [step["run"] for step in WORKFLOW["jobs"]["build"]["steps"] if "docker run" in step.get("run", "")]
    assert runs
    for line in (line for run in runs for line in run.replace("\\\n", " ").splitlines() if "docker run" in line):
        for option in ("--read-only", "--cap-drop=ALL", "--security-opt=no-new-privileges", "--user=65532:65532"):
            assert option in line
    assert f"{sys.version_info.major}." in ARGUMENTS["BASE"]
