"""What all documents of the policy language have in common: strict models, names, metadata."""

from __future__ import annotations

import re
from typing import Annotated, Protocol

from pydantic import AfterValidator, BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

API_VERSION = "quarantine.gpu/v1alpha1"
_NAME = re.compile(r"[a-z0-9]([a-z0-9.-]{0,61}[a-z0-9])?")
_METRIC = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
_LABEL = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")


def _pattern(pattern: re.Pattern[str], what: str) -> AfterValidator:
    def check(value: str) -> str:
        if not pattern.fullmatch(value):
            raise ValueError(f"{value!r} is no {what}: it must match {pattern.pattern}")
        return value

    return AfterValidator(check)


Name = Annotated[str, _pattern(_NAME, "name")]
MetricName = Annotated[str, _pattern(_METRIC, "metric name")]
LabelName = Annotated[str, _pattern(_LABEL, "label name")]
Text = Annotated[str, Field(min_length=1, max_length=4000)]


class Model(BaseModel):
    """Strict about keys, written in camelCase, never changed after it is read."""

    model_config = ConfigDict(extra="forbid", frozen=True, alias_generator=to_camel, populate_by_name=True)


class Metadata(Model):
    """What a document is called."""

    name: Name = Field(description="Unique among the documents of its kind; lower case, digits, `-` and `.`.")


class Written(Protocol):
    """A version of a document, as it is kept for good."""

    @property
    def name(self) -> str:
        """What the trail calls it."""
        ...

    @property
    def hash(self) -> str:
        """Of the text: it makes the version."""
        ...

    @property
    def text(self) -> str:
        """Letter for letter."""
        ...

    @property
    def revision(self) -> str | None:
        """The git revision of the directory that it came from; None if not known."""
        ...
