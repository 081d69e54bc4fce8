"""The published JSON Schema and the reference page: as the models are now, and of use."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from markdown_it import MarkdownIt
from pydantic import BaseModel

from quarantine.adapters.policyfiles.examples import EXAMPLES
from quarantine.adapters.policyfiles.loader import check_paths
from quarantine.adapters.policyfiles.reference import reference
from quarantine.adapters.policyfiles.schema import json_schema, schema_text
from quarantine.adapters.policyfiles.strictyaml import load_strict
from quarantine.core.policy import KINDS
from tests.adapters.policyfiles.conftest import SAMPLE, SHIPPED

DOCS = SHIPPED.parent / "docs"
SCHEMA = json_schema()
TYPES: dict[str, type | tuple[type, ...]] = {
    "object": dict,
    "array": list,
    "string": str,
    "integer": int,
    "number": (int, float),
    "boolean": bool,
    "null": type(None),
}
ABOUT = {"title", "description", "default", "examples", "$schema", "$id", "$defs"}


def wrong(value: Any, schema: dict[str, Any], at: str = "") -> list[str]:
    """What a JSON Schema validator would say: the keywords that pydantic writes, and no other is passed over."""
    found = []
    for keyword, wanted in schema.items():
        if keyword in ABOUT:
            continue
        if keyword == "$ref":
            found += wrong(value, SCHEMA["$defs"][wanted.rsplit("/", 1)[-1]], at)
        elif keyword in {"oneOf", "anyOf"}:
            each = [wrong(value, branch, at) for branch in wanted]
            fits = each.count([])
            if fits == 0 or (keyword == "oneOf" and fits > 1):
                found.append(f"{at}: fits {fits} of {keyword}: {min(each, key=len)}")
        elif keyword == "type":
            number = isinstance(value, bool) and wanted in {"integer", "number"}
            if number or not isinstance(value, TYPES[wanted]):
                found.append(f"{at}: no {wanted}")
        elif isinstance(value, OF[keyword]):  # a keyword says nothing of values of other types
            found += KEYWORDS[keyword](value, wanted, schema, at)
    return found


def required(value: Any, wanted: Any, _: Any, at: str) -> list[str]:
    return [f"{at}.{name} is missing" for name in wanted if name not in value]


def properties(value: Any, wanted: Any, _: Any, at: str) -> list[str]:
    return [f for name in wanted.keys() & value.keys() for f in wrong(value[name], wanted[name], f"{at}.{name}")]


def additional(value: Any, wanted: Any, schema: Any, at: str) -> list[str]:
    others = value.keys() - schema.get("properties", {}).keys()
    if isinstance(wanted, bool):
        return [] if wanted else [f"{at}.{name} is unknown" for name in others]
    return [f for name in others for f in wrong(value[name], wanted, f"{at}.{name}")]


def items(value: Any, wanted: Any, _: Any, at: str) -> list[str]:
    return [f for number, item in enumerate(value) for f in wrong(item, wanted, f"{at}[{number}]")]


def plain(holds: Callable[[Any, Any], bool]) -> Callable[[Any, Any, Any, str], list[str]]:
    return lambda value, wanted, _, at: [] if holds(value, wanted) else [f"{at}: {value!r} and {wanted!r}"]


KEYWORDS: dict[str, Callable[[Any, Any, Any, str], list[str]]] = {
    "required": required,
    "properties": properties,
    "additionalProperties": additional,
    "items": items,
    "const": plain(lambda value, wanted: bool(value == wanted)),
    "enum": plain(lambda value, wanted: value in wanted),
    "pattern": plain(lambda value, wanted: re.search(wanted, value) is not None),
    **dict.fromkeys(("minLength", "minItems", "minProperties"), plain(lambda value, wanted: len(value) >= wanted)),
    "maxLength": plain(lambda value, wanted: len(value) <= wanted),
    "minimum": plain(lambda value, wanted: bool(value >= wanted)),
    "maximum": plain(lambda value, wanted: bool(value <= wanted)),
}
OF: dict[str, type | tuple[type, ...]] = {
    **dict.fromkeys(("required", "properties", "additionalProperties", "minProperties"), dict),
    **dict.fromkeys(("items", "minItems"), list),
    **dict.fromkeys(("const", "enum"), object),
    **dict.fromkeys(("pattern", "minLength", "maxLength"), str),
    **dict.fromkeys(("minimum", "maximum"), (int, float)),
}


def documents(directory: Path) -> list[tuple[str, Any]]:
    files = [f for f in sorted(directory.glob("*.yaml")) if not f.name.endswith("_test.yaml")]
    return [(f"{f.name}:{d.line}", d.data) for f in files for d in load_strict(f.read_text(), f.name)]


@pytest.mark.parametrize("directory", [SHIPPED, SAMPLE])
def test_all_policies_fit_the_schema(directory: Path) -> None:
    found = documents(directory)
    assert found
    assert [f"{place} {fault}" for place, data in found for fault in wrong(data, SCHEMA)] == []


@pytest.mark.parametrize(
    ("kind", "old", "new"),
    [
        ("Policy", "owner:", "ower:"),
        ("Policy", "severity: critical", "severity: hot"),
        ("Policy", "for: 5m", "for: 5 minutes"),
        ("Policy", "tolerate: 10%", "tolerate: 10"),
        ("Policy", "above: gpu-hot", "above: [78]"),
        ("Policy", "when: on-proof", "when: on-prof"),
        ("Procedure", "command:", "comand:"),
        ("Policy", "kind: Policy", "kind: Polcy"),
        ("Policy", "v1alpha1", "v1"),
        ("Fleet", 'nodeSelector: {nvidia.com/gpu.present: "true"}', "nodeSelector: {}"),
        ("Fleet", "size: 128", "size: 0"),
        ("Signal", "type: gauge", "type: histogram"),
    ],
)
def test_an_editor_sees_the_mistake(kind: str, old: str, new: str) -> None:
    text = EXAMPLES[kind]
    assert old in text
    assert all(wrong(d.data, SCHEMA) == [] for d in load_strict(text, "f"))
    assert any(wrong(d.data, SCHEMA) for d in load_strict(text.replace(old, new), "f"))


@pytest.mark.parametrize(("word", "fits"), [("when-idle", True), ("later", False)])
def test_an_editor_knows_the_short_forms(word: str, fits: bool) -> None:
    text = EXAMPLES["Policy"].replace("{when: after-checkpoint, deadline: 12h}", word)
    assert f"drain: {word}" in text
    assert all((wrong(d.data, SCHEMA) == []) is fits for d in load_strict(text, "f"))


def test_what_the_defaults_may_give_is_not_required_in_an_editor() -> None:
    required = SCHEMA["$defs"]["PolicySpec"]["required"]
    assert "trigger" in required
    assert not {"owner", "severity"} & set(required)


def test_the_committed_schema_is_that_of_the_models() -> None:
    assert (SHIPPED / "schema.json").read_text(encoding="utf-8") == schema_text(), (
        "write it anew: quarantine policy schema > policies/schema.json"
    )
    json.loads(schema_text())


def test_the_committed_reference_is_that_of_the_models() -> None:
    assert (DOCS / "policy-language.md").read_text(encoding="utf-8") == reference(), (
        "write it anew: quarantine policy reference > docs/policy-language.md"
    )


def fields(model: type[BaseModel]) -> set[str]:
    return {field.alias or name for name, field in model.model_fields.items()}


def test_the_reference_has_every_kind_and_field_and_no_broken_link() -> None:
    page = reference()
    for kind, model in KINDS.items():
        assert f"## {kind}\n" in page
        spec = model.model_fields["spec"].annotation
        assert isinstance(spec, type)
        for name in fields(spec):
            assert f"| `{name}` |" in page, (kind, name)
    tokens = MarkdownIt("commonmark").enable("table").parse(page)
    titles = {tokens[i + 1].content.lower().replace(" ", "-") for i, t in enumerate(tokens) if t.type == "heading_open"}
    assert set(re.findall(r"\]\(#([^)]*)\)", page)) <= titles


def test_the_examples_are_policies_without_a_fault(tmp_path: Path) -> None:
    for kind, text in EXAMPLES.items():
        (tmp_path / f"{kind}.yaml").write_text(text, encoding="utf-8")
    result = check_paths([tmp_path])
    assert result.faults == ()
    assert result.counts == {"files": 5, "policies": 1, "signals": 2, "procedures": 2, "fleets": 1}
