"""The unit tests beside the shipped policies, as a user runs them; every policy has them, and a page."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from quarantine.adapters.policyfiles.loader import load_rules
from quarantine.settings import shipped_policies

POLICIES = shipped_policies()
DOCS = Path(__file__).parents[2] / "docs" / "policies"


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_all_of_them_pass() -> None:
    command = [sys.executable, "-m", "quarantine", "policy", "test", str(POLICIES)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=580, check=False)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]


def test_every_policy_observes_and_has_its_tests_and_its_page() -> None:
    rules = load_rules([POLICIES])
    assert len(rules.policies) >= 21
    for policy in rules.policies:
        assert policy.spec.mode == "observe"
        assert (POLICIES / f"{policy.name}_test.yaml").is_file()
        page = (DOCS / f"{policy.name}.md").read_text(encoding="utf-8")
        for section in ("Why", "Source", "Limits"):
            assert re.search(rf"^(## |\*\*){section}\b", page, re.MULTILINE), f"{policy.name}: {section}"
        assert f"({policy.name}.md)" in (DOCS / "README.md").read_text(encoding="utf-8")
