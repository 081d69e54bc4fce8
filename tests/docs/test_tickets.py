"""docs/tickets/README.md and directory.md: settings and files that can be used, an adapter that keeps the port."""

from __future__ import annotations

import re
import sys
import tomllib
from dataclasses import replace
from importlib.metadata import entry_points
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from quarantine.adapters import assets
from quarantine.adapters.assets import Assets
from quarantine.adapters.tickets import directory, render
from quarantine.adapters.tickets.example import FULL
from quarantine.adapters.tickets.letter import TITLE_MAX, Letters
from quarantine.adapters.tickets.record import Comment, StoredFault, StoredMachine, TicketRecord
from quarantine.adapters.tickets.render import Templates
from quarantine.adapters.tickets.targets import GROUP, Common, Context, target
from quarantine.core.tickets import TicketState, Update
from quarantine.settings import load
from quarantine.settings.leaves import is_secret_option
from tests.core.world import NOW

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/tickets/README.md").read_text(encoding="utf-8")
FILES = (ROOT / "docs/tickets/directory.md").read_text(encoding="utf-8")
BUILT_IN = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"][GROUP]


def blocks(language: str, text: str = PAGE) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)


def module(name: str, source: str) -> ModuleType:
    made = ModuleType(name)
    exec(compile(source, f"docs/tickets/README.md:{name}", "exec"), made.__dict__)  # noqa: S102  (the page's own)
    return made


ADAPTER, SUITE = blocks("python")
sys.modules["acme_table"] = module("acme_table", ADAPTER)
TestTable = module("test_acme_table", SUITE).TestTable


def test_the_example_is_an_afternoons_work() -> None:
    assert len(ADAPTER.splitlines()) < 75


def test_the_example_is_a_kind_by_its_entry_point(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    declared = tomllib.loads(blocks("toml")[0])["project"]["entry-points"][GROUP]
    meta = tmp_path / "acme_table-1.0.dist-info"
    meta.mkdir()
    (meta / "METADATA").write_text("Metadata-Version: 2.1\nName: acme-table\nVersion: 1.0\n")
    lines = [f"{name} = {value}" for name, value in declared.items()]
    (meta / "entry_points.txt").write_text("\n".join([f"[{GROUP}]", *lines]) + "\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    desk = target("table", {"database_file": str(tmp_path / "t.db")}, Context("lab", lambda: NOW, None, "table"))
    assert desk.open(FULL).ref == FULL.key


def test_its_settings_are_read(tmp_path: Path) -> None:
    config = tmp_path / "quarantine.yaml"
    config.write_text(blocks("yaml")[0])
    tickets = load(config, {}, {}).tickets
    assert {name: each.kind for name, each in tickets.chosen.items()} == {"repairs": "github", "nordic": "email"}
    folder = tmp_path / "letters" / "nordic"
    folder.mkdir(parents=True)
    (folder / "title.j2").write_text("x")
    for name, each in tickets.chosen.items():
        assert target(each.kind, each.options, Context("lab", lambda: NOW, None, name))
    assert "`tickets: {kind: directory, directory: tickets}`" in PAGE
    for text in blocks("yaml", FILES):
        config.write_text(text)
        [each] = load(config, {}, {}).tickets.chosen.values()
        assert (each.kind, each.options) == ("directory", {"directory": "/var/lib/quarantine/tickets"})


def test_every_kind_is_installed_and_has_its_row_and_its_page() -> None:
    rows = re.findall(r"^\| \[`([a-z]+)`\]\(\1\.md\)", PAGE, re.MULTILINE)
    assert rows == sorted(BUILT_IN)
    assert {entry.name: entry.value for entry in entry_points(group=GROUP)} == BUILT_IN
    for kind in rows:
        assert (ROOT / f"docs/tickets/{kind}.md").is_file()


def test_the_options_of_every_kind_are_told() -> None:
    told = re.findall(r"^\| `([a-z]+)` \|", PAGE[PAGE.index("## Options") : PAGE.index("**Secrets.")], re.MULTILINE)
    assert set(told) == {"kind", *Common.model_fields}
    for word in ("token", "password", "secret", "passphrase", "credential"):
        assert f"`{word}`" in PAGE
        assert is_secret_option(f"api_{word}")


def test_every_template_and_every_field_is_told() -> None:
    part = PAGE[PAGE.index("## Templates") : PAGE.index("## Assets")]
    assert set(re.findall(r"^\| `([a-z.0-9]+\.j2)` \|", part, re.MULTILINE)) == set(render.NAMES)
    told = set(re.findall(r"`([a-z_]+)`", part))
    fields: set[str] = set()
    for model in (TicketRecord, StoredMachine, StoredFault, Comment):
        fields |= set(model.model_fields)
    assert fields - told == set()
    assert f"{TITLE_MAX} characters" in part
    assert f"{render.LONGEST:,} characters" in part


def test_the_example_of_a_template_works(tmp_path: Path) -> None:
    (tmp_path / "report.txt.j2").write_text(blocks("jinja")[0])
    said = Letters(Templates(tmp_path), "desk").letter(FULL).text
    assert "please replace host 123456." in said
    assert "measured 91.5 °C" in said


def test_the_examples_of_asset_maps_are_read(tmp_path: Path) -> None:
    machine = replace(FULL.machine, system_uuid="4c4c4544-0042-3510-8052-b4c04f4d4d32")
    for name, text, count in (("m.csv", blocks("csv")[0], 3), ("m.yaml", blocks("yaml")[1], 2)):
        (tmp_path / name).write_text(text)
        known = Assets(tmp_path / name)
        assert dict(known.of(replace(FULL, machine=machine))) == {"serial": "J1234X5", "rack": "R7"}
        assert bool(known.of(FULL)) == (name == "m.yaml"), "the CSV says which machine has the node's name"
        assert len(assets.read(tmp_path / name)) == count
    assert f"{assets.LARGEST >> 20} MiB and {assets.MOST:,} entries" in PAGE
    assert f"{assets.TOLD} values are told, each of at most {assets.LONGEST} characters" in PAGE


# --- directory.md -----------------------------------------------------------------------------------------------------


def test_every_key_of_the_json_is_told() -> None:
    assert set(TicketRecord.model_fields) <= set(re.findall(r"`([a-z_]+)`", FILES))
    assert set(re.findall(r"^\| `([a-z]+)` \| the folder", FILES, re.MULTILINE)) == set(
        directory.DirectoryOptions.model_fields
    )


def test_a_status_means_what_the_page_says(tmp_path: Path) -> None:
    made: Any = target("directory", {"directory": str(tmp_path)}, Context("lab", lambda: NOW, None, "disk"))
    ref = made.open(FULL).ref
    path = tmp_path / f"{ref}.json"
    first = path.read_text()
    table = FILES[FILES.index("| `status` | means |") : FILES.index("Upper case")]
    seen = set()
    for words, meaning in re.findall(r"^\| (`.*?) \| `([a-z-]+)`", table, re.MULTILINE):
        for word in re.findall(r"`([a-z-]+)`", words):
            path.write_text(first.replace('"status": "open"', f'"status": "{word.upper().replace("-", " ")}"'))
            assert made.read(ref).state == meaning
            seen.add(TicketState(meaning))
    assert seen == set(TicketState)
    made.update(ref, Update("a", "b"))
