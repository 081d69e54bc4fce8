"""The JSON Schema of policy files, for editors."""

from __future__ import annotations

import json
from typing import Any

from pydantic.json_schema import models_json_schema

from quarantine.adapters.policyfiles.humane import models_in
from quarantine.core.defaults import PolicyDefaults
from quarantine.core.document import API_VERSION
from quarantine.core.policy import KINDS, PolicySpec

_ID = f"urn:{API_VERSION.replace('/', ':')}"


def json_schema() -> dict[str, Any]:
    """One schema for all kinds. What a Defaults document may give is not required, since an editor sees one file."""
    models = [(model, "validation") for model in KINDS.values()]
    _, schema = models_json_schema(models, by_alias=True)  # type: ignore[arg-type]
    definitions = schema["$defs"]
    spec = definitions["PolicySpec"]
    spec["required"] = [name for name in spec["required"] if name not in _given_whole()]
    _allow_short_forms(definitions["Response"]["properties"], definitions)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": _ID,
        "title": f"Policies of {API_VERSION}",
        "description": f"Each document is one of {', '.join(KINDS)}.",
        "oneOf": [{"$ref": f"#/$defs/{model.__name__}"} for model in KINDS.values()],
        "$defs": definitions,
    }


def _allow_short_forms(response: dict[str, Any], definitions: dict[str, Any]) -> None:
    """A word in place of a mapping (`drain: now`), which pydantic takes before it looks, and so does not show."""
    for field in ("drain", "release"):
        whole = response[field].pop("$ref")
        word = dict(definitions[whole.rsplit("/", 1)[-1]]["properties"]["when"])
        for about in ("default", "description", "title"):
            word.pop(about, None)
        response[field] = {"anyOf": [word, {"$ref": whole}], **response[field]}


def _given_whole() -> set[str]:
    """What a Defaults document can give a policy that says nothing of it. Of a trigger or a recovery it gives parts."""
    own, shared = PolicySpec.model_fields, PolicyDefaults.model_fields
    whole = (n for n in shared if list(models_in(own[n].annotation)) == list(models_in(shared[n].annotation)))
    return {own[name].alias or name for name in whole}


def schema_text() -> str:
    """It, as it is committed."""
    return json.dumps(json_schema(), indent=2, ensure_ascii=False) + "\n"
