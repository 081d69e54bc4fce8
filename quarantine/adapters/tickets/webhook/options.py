"""The options of a webhook target."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, SecretStr, model_validator

from quarantine.adapters.tickets.web import base_url
from quarantine.core.tickets import TicketState


class WebhookOptions(BaseModel):
    """Where the receiver is, and the secret that both sides sign with."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    url: Annotated[str, AfterValidator(base_url)]  # `/tickets` is added to it
    secret: SecretStr | None = None
    secret_file: Path | None = None  # read anew for each call
    states: dict[str, TicketState] = Field(default_factory=dict)  # the receiver's status word to a state of ours

    @model_validator(mode="after")
    def _one_secret(self) -> Self:
        if (self.secret is None) == (self.secret_file is None):
            raise ValueError("set either secret_file or secret")
        return self
