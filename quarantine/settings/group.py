"""What groups of settings have in common."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

Text = Annotated[str, Field(min_length=1)]


class Group(BaseModel):
    """Strict about names, never changed after it is read, silent about what it was given."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)
