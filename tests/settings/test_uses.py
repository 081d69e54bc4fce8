"""What the settings are used for: a connection, and their own reference."""

from __future__ import annotations

import re
from datetime import timedelta
from pathlib import Path

import pytest

from quarantine.adapters.prometheus import Flavour
from quarantine.core.errors import UsageError
from quarantine.settings import Settings, load, reference
from quarantine.settings.leaves import LEAVES, Leaf
from tests.settings.writing import write


def test_a_connection_for_the_adapter(tmp_path: Path) -> None:
    token = write(tmp_path / "token", "t\n")
    environ = {
        "QUARANTINE_PROMETHEUS__URL": "https://mimir.example/prometheus/",
        "QUARANTINE_PROMETHEUS__FLAVOUR": "mimir",
        "QUARANTINE_PROMETHEUS__TENANT": "gpu",
        "QUARANTINE_PROMETHEUS__BEARER_TOKEN_FILE": str(token),
        "QUARANTINE_PROMETHEUS__TIMEOUT": "7s",
    }
    connection = load(None, {}, environ).prometheus.connection()
    assert connection.endpoint == "https://mimir.example/prometheus/api/v1/query"
    assert connection.flavour is Flavour.MIMIR
    assert connection.timeout == timedelta(seconds=7)
    assert connection.all_headers()["X-Scope-OrgID"] == "gpu"
    assert connection.authorization() == "Bearer t"
    token.write_text("rotated\n")
    assert connection.authorization() == "Bearer rotated"


@pytest.mark.parametrize("flavour", list(Flavour))
def test_settings_know_every_flavour_of_the_adapter(flavour: Flavour) -> None:
    environ = {"QUARANTINE_PROMETHEUS__FLAVOUR": flavour.value}
    assert load(None, {}, environ).prometheus.connection().flavour is flavour


def test_the_reference_has_a_row_with_a_meaning_for_every_setting() -> None:
    rows = {}
    for line in reference().splitlines():
        if line.startswith("| `"):
            cells = [cell.strip() for cell in line.strip("|").split(" | ")]
            assert len(cells) == 5, line
            rows[cells[0].strip("`")] = cells
    assert set(rows) == {leaf.name for leaf in LEAVES}
    for name, (_, variable, kind, default, meaning) in rows.items():
        assert re.fullmatch(r"`QUARANTINE_[A-Z_]+`", variable), name
        assert kind, name
        assert default, name
        assert meaning.endswith("."), name
    assert rows["prometheus.delay"][3] == "`0s`"
    assert "Not in the file" in rows["slack.token"][4]
    assert rows["mode"][2] == "`observe`, `enforce`"


def test_the_page_in_docs_is_this_reference() -> None:
    page = Path(__file__).parents[2] / "docs" / "settings.md"
    assert page.read_text(encoding="utf-8") == reference(), "write the page anew from quarantine.settings.reference"


JSON = {
    "prometheus.headers": '{"A": "b"}',
    "tickets.targets": '{"a": {"kind": "b"}}',
    "tickets.providers": '{"a": "b"}',
}


@pytest.mark.parametrize("leaf", LEAVES, ids=lambda leaf: leaf.name)
def test_every_variable_of_the_reference_is_read(leaf: Leaf) -> None:
    odd = JSON.get(leaf.name, "zz zz")
    try:
        settings = load(None, {}, {leaf.variable: odd})
    except UsageError as error:
        assert leaf.variable in str(error)  # noqa: PT017  (some take it, some do not: either way they have seen it)
    else:
        assert settings != Settings()
