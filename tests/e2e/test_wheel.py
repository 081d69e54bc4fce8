"""The built wheel, installed without the checkout, migrates and runs a cycle."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import venv
from collections.abc import Mapping
from pathlib import Path

import pytest
import yaml

from quarantine.sandbox.prometheus import PrometheusServer
from quarantine.sandbox.remotewrite import write
from tests.e2e.worlds import TOKEN, World, healthy

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The `quarantine` command of a fresh environment: the wheel, and this one's dependencies without the checkout."""
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(folder / "dist")]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    [wheel] = (folder / "dist").glob("*.whl")
    venv.create(folder / "venv", with_pip=False)
    python = folder / "venv/bin/python"
    purelib = Path(sysconfig.get_path("purelib", vars={"base": str(folder / "venv")}))
    # A folder named in a .pth is searched, but its own .pth files, the editable checkout's among them, are not read.
    (purelib / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    pip = [
        sys.executable,
        "-m",
        "pip",
        "--python",
        str(python),
        "install",
        "--quiet",
        "--no-deps",
        "--no-index",
        str(wheel),
    ]
    subprocess.run(pip, check=True, capture_output=True)
    return folder / "venv/bin/quarantine"


def call(command: Path, *arguments: str, cwd: Path, env: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("QUARANTINE_", "PYTHON"))}
    return subprocess.run(
        [str(command), *arguments],
        cwd=cwd,
        env={**clean, **env},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_the_wheel_alone_migrates_and_runs_once(installed: Path, cluster: World) -> None:
    env = {"QUARANTINE_SLACK__TOKEN": TOKEN, "QUARANTINE_DATABASE_URL": cluster.database_url}
    where = subprocess.run(
        [str(installed.parent / "python"), "-c", "import quarantine; print(quarantine.__file__)"],
        cwd=cluster.folder, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert str(ROOT) not in where.stdout, "this is the wheel, not the checkout"
    upgraded = call(installed, "db", "upgrade", cwd=cluster.folder, env=env)
    assert upgraded.returncode == 0, upgraded.stderr
    assert "went from empty to revision" in upgraded.stdout
    cluster.heat(cluster.nodes[3])
    done = call(installed, "run", "--once", cwd=cluster.folder, env=env)
    assert done.returncode == 0, done.stderr
    assert cluster.marked() == [cluster.nodes[3]]


def test_the_wheel_has_the_shipped_policies_and_a_version(installed: Path, cluster: World) -> None:
    cluster.write_settings()
    settings = {key: value for key, value in cluster.settings.items() if key != "policies"}
    env = {"QUARANTINE_SLACK__TOKEN": TOKEN, "QUARANTINE_DATABASE_URL": cluster.database_url}
    # The shipped policies have no matchers: in the Prometheus that all tests share they would judge every test's fleet.
    with PrometheusServer() as own:
        write(own.url, healthy(cluster.nodes))
        settings["prometheus"] = {**settings["prometheus"], "url": own.url}
        cluster.config.write_text(yaml.safe_dump(settings))
        planned = call(installed, "plan", "--config", str(cluster.config), cwd=cluster.folder, env=env)
    assert planned.returncode == 0, planned.stderr
    assert call(installed, "--version", cwd=cluster.folder, env=env).stdout.startswith("quarantine ")
