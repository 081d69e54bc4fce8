"""docs/replicas.md and docs/install.md: the times that they name are those of the code and of the manifests."""

from __future__ import annotations

import re
from pathlib import Path

from quarantine.health import LONGEST_CYCLE
from quarantine.leadership import Terms
from quarantine.scheduler import GRACE_S, LEAVE_S
from quarantine.settings import Settings
from tests.k8s.conftest import container_of, overlay, pod_of

DOCS = Path(__file__).parents[2] / "docs"
REPLICAS = " ".join((DOCS / "replicas.md").read_text(encoding="utf-8").split())
INSTALL = " ".join((DOCS / "install.md").read_text(encoding="utf-8").split())


def test_the_times_of_the_lease() -> None:
    terms, given = Terms(), Settings().leader
    assert (terms.lasts, terms.renew_within, terms.every) == (given.lasts, given.renew_within, given.every)
    assert f"once it has seen it unchanged for {terms.lasts.seconds} s, and runs a cycle at once" in REPLICAS
    assert f"it stops {terms.renew_within.seconds} s after its last renewal" in REPLICAS
    assert terms.every.seconds == 2
    assert "at its next look, two seconds later" in REPLICAS


def test_the_times_of_its_end() -> None:
    grace = pod_of(overlay("observe"))["spec"]["terminationGracePeriodSeconds"]
    assert f"What hangs gets {GRACE_S:.0f} s" in REPLICAS
    assert f"at an action that has not ended after {GRACE_S:.0f} s" in REPLICAS
    assert (
        f"After {LEAVE_S:.0f} s it ends whatever hangs, with exit code 3; the Deployment gives it {grace} s" in REPLICAS
    )


def test_when_the_probes_fail() -> None:
    assert LONGEST_CYCLE.total_seconds() == 600
    assert (
        "where no cycle has ended for ten minutes (or five times interval and deadline, if that is longer)" in INSTALL
    )


def test_what_was_measured_fits_what_is_asked_for() -> None:
    """A node that is short of memory ends first whoever uses more than it asked for."""
    [measured] = re.findall(r"and (\d+) MB once it is warm", INSTALL)
    resources = container_of(overlay("observe"))["resources"]
    asked, most = in_bytes(resources["requests"]["memory"]), in_bytes(resources["limits"]["memory"])
    assert int(measured) * 1e6 * 1.2 < asked
    assert asked * 2 < most


def in_bytes(quantity: str) -> int:
    return int(quantity[:-2]) * {"Mi": 2**20, "Gi": 2**30}[quantity[-2:]]


def test_links_lead_somewhere() -> None:
    for name in ("replicas.md", "install.md"):
        for target in re.findall(r"\]\(([^)#]+)", (DOCS / name).read_text(encoding="utf-8")):
            assert (DOCS / target).exists(), target
