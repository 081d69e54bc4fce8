"""What `docs/policy-tests.md` says: its example passes as it stands, and it names every field."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
from pydantic import BaseModel

from quarantine.policytest import format as language
from quarantine.policytest.loading import load
from quarantine.policytest.runner import run

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "policy-tests.md").read_text(encoding="utf-8")


def models() -> list[type[BaseModel]]:
    ours = (found for found in vars(language).values() if isinstance(found, type))
    return [found for found in ours if issubclass(found, BaseModel) and found.__module__ == language.__name__]


def test_the_example_passes_beside_the_shipped_policies(tmp_path: Path) -> None:
    for file in (ROOT / "policies").glob("*.yaml"):
        if not file.name.endswith("_test.yaml"):
            shutil.copy(file, tmp_path)
    (example,) = re.findall(r"```yaml\n(.*?)```", TEXT, re.DOTALL)
    (tmp_path / "gpu-hot_test.yaml").write_text(example, encoding="utf-8")
    (file_,) = load([tmp_path])
    assert [(o.test.case.name, o.problems) for o in run(file_.tests) if not o.passed] == []


@pytest.mark.parametrize("model", models(), ids=lambda model: model.__name__)
def test_every_field_is_named(model: type[BaseModel]) -> None:
    for name, field in model.model_fields.items():
        assert re.search(rf"\b{field.alias or name}\b", TEXT), f"{model.__name__}.{name}"
