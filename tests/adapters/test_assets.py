"""The asset map: what is read of it, which machine an entry is for, and what is said of a file that cannot be used."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quarantine.adapters import assets
from quarantine.adapters.assets import Assets, read
from quarantine.adapters.tickets.example import FULL, SPARSE
from quarantine.core.errors import UsageError
from quarantine.core.letters import CaseReport

UUID, GPU = FULL.machine.system_uuid, FULL.machine.gpus[0]


def write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("m.csv", f"node,gpu_uuid,serial,rack\ngpu-017,,J1,R7\n\n,{GPU.upper()},1650,\n"),
        ("m.csv", f'\ufeffrack , serial,node,gpu_uuid\r\nR7,J1,gpu-017,\r\n"",1650,gpu-017,{GPU}\r\n'),
        (
            "m.yaml",
            f"assets:\n  - {{node: gpu-017, rack: R7, serial: J1}}\n  - {{gpu_uuid: {GPU}, serial: 1650, rack: }}\n",
        ),
    ],
)
def test_a_machine_and_its_suspect_gpu_have_the_providers_names(tmp_path: Path, name: str, text: str) -> None:
    told = Assets(write(tmp_path / name, text)).of(FULL)
    assert dict(told) == {"serial": "J1", "rack": "R7", f"serial of {GPU}": "1650"}


def test_only_the_gpus_with_a_fault_are_named_unless_none_has_one(tmp_path: Path) -> None:
    known = Assets(write(tmp_path / "m.csv", f"gpu_uuid,serial\n{GPU},1\nGPU-other,2\n"))
    several = replace(FULL, machine=replace(FULL.machine, gpus=(GPU, "GPU-other")))
    assert [name for name, _ in known.of(several)] == [f"serial of {GPU}"]
    assert [name for name, _ in known.of(replace(several, faults=()))] == [f"serial of {GPU}", "serial of GPU-other"]


@pytest.mark.parametrize(
    ("row", "told"),
    [
        ("gpu-017,,", True),
        (f"gpu-017,,{UUID.upper()}", True),
        ("gpu-017,,another", False),  # the name went to this machine, the entry did not
        (f"renamed,,{UUID}", True),
        ("renamed,example://zone-2/i-0abc,", True),
        ("gpu-017,example://zone-2/i-gone,", False),
        ("gpu-018,,", False),
    ],
)
def test_an_entry_is_for_the_machine_that_its_surest_name_says(tmp_path: Path, row: str, told: bool) -> None:
    known = Assets(write(tmp_path / "m.csv", f"node,provider_id,system_uuid,serial\n{row},J1\n"))
    assert known.of(FULL) == ((("serial", "J1"),) if told else ())


def test_the_surer_name_wins_and_a_machine_that_is_not_there_has_nothing(tmp_path: Path) -> None:
    text = f"node,system_uuid,serial,rack\ngpu-017,,by-name,R7\n,{UUID},by-uuid,\n"
    known = Assets(write(tmp_path / "m.csv", text))
    assert dict(known.of(FULL)) == {"serial": "by-uuid", "rack": "R7"}
    assert known.of(SPARSE) == ()


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("m.csv", "serial,rack\nJ1,R7\n", ":1: no column says which machine it is"),
        ("m.csv", "node,serial,serial\n", ":1: each column needs a name of its own"),
        ("m.csv", "node,serial\na,J1\n,J2\n", ":3: this says of no machine"),
        ("m.csv", "node,serial\na,J1,more\n", ":2: 3 fields, where the first line names 2"),
        ("m.csv", "node,serial\na,J1\nb,J2\nA,J3\n", ":4: node 'a' is in line 2 already"),
        ("m.csv", 'node,serial\na,"J1\n', "this is no CSV"),
        ("m.csv", f"node,serial\na,{'x' * 301}\n", ":2: 'serial' is longer than 300 characters"),
        ("m.yaml", "machines: []\n", ":1: machines is not known; there is `assets`"),
        ("m.yaml", "assets: {node: a}\n", ":1: `assets` must be a list"),
        ("m.yaml", "assets:\n  - a\n", ":2: an entry must be a mapping"),
        ("m.yaml", "assets:\n  - node: a\n    serial: 1.5\n", ":3: serial must be text; put it in quotes"),
        ("m.yaml", "assets:\n  - {serial: J1}\n", ":2: this says of no machine"),
        ("m.yaml", "assets: &a []\n", "anchors"),
    ],
)
def test_a_file_that_cannot_be_used_is_refused_with_its_line(tmp_path: Path, name: str, text: str, words: str) -> None:
    path = write(tmp_path / name, text)
    with pytest.raises(UsageError) as caught:
        Assets(path)
    assert str(caught.value).startswith(f"{path}:")
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_file_that_is_no_text_or_not_there_or_too_large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "latin.csv").write_bytes(b"node,site\na,Z\xfcrich\n")
    with pytest.raises(UsageError, match=r"latin\.csv:2: this is not UTF-8"):
        Assets(tmp_path / "latin.csv")
    with pytest.raises(UsageError, match=r"cannot be read \(no such file or directory\)"):
        Assets(tmp_path / "none.csv")
    os.mkfifo(tmp_path / "pipe.csv")
    with pytest.raises(UsageError, match="is no plain file"):
        Assets(tmp_path / "pipe.csv")
    monkeypatch.setattr(assets, "LARGEST", 10)
    with pytest.raises(UsageError, match="larger than 10 bytes"):
        Assets(write(tmp_path / "large.csv", "node,serial\na,b\n"))


def test_it_is_read_anew_and_a_broken_one_leaves_the_earlier_in_use(tmp_path: Path) -> None:
    path = write(tmp_path / "m.csv", "node,serial\ngpu-017,J1\n")
    known = Assets(path)
    write(path, "node,serial\ngpu-017,J22\n")
    assert (known.of(FULL), known.fault) == ((("serial", "J22"),), "")
    write(path, "node\n\n\ngpu-017,J333\n")
    assert known.of(FULL) == (("serial", "J22"),)
    assert known.fault.startswith(f"{path}:4: ")
    path.unlink()
    assert known.of(FULL) == (("serial", "J22"),)
    assert "no such file" in known.fault
    write(path, "node,serial\ngpu-017,J4444\n")
    assert (known.of(FULL), known.fault) == ((("serial", "J4444"),), "")


def test_it_is_not_read_again_where_nothing_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    known = Assets(write(tmp_path / "m.csv", "node,serial\ngpu-017,J1\n"))
    monkeypatch.setattr(assets, "read", lambda _: pytest.fail("it was read again"))
    assert known.of(FULL) == (("serial", "J1"),)


@given(st.binary(max_size=200), st.sampled_from(["m.csv", "m.yaml"]))
def test_whatever_the_file_is_it_is_read_or_refused(
    tmp_path_factory: pytest.TempPathFactory, raw: bytes, name: str
) -> None:
    path = tmp_path_factory.getbasetemp() / f"any-{os.getpid()}-{name}"
    path.write_bytes(raw)
    try:
        read(path)
    except UsageError as error:
        assert "\n" not in str(error)  # noqa: PT017  (either outcome is right)


def test_what_is_told_of_one_machine_is_bounded(tmp_path: Path) -> None:
    columns = [f"c{number}" for number in range(assets.TOLD + 9)]
    path = write(tmp_path / "m.csv", f"node,{','.join(columns)}\ngpu-017,{','.join(columns)}\n")
    assert len(Assets(path).of(FULL)) == assets.TOLD


def test_nothing_is_known_of_a_machine_without_names(tmp_path: Path) -> None:
    known = Assets(write(tmp_path / "m.csv", "node,system_uuid,serial\n,x,J1\n"))
    nameless: CaseReport = replace(SPARSE, node="")
    assert known.of(nameless) == ()
