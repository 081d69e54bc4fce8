"""What the settings say of a GitHub target."""

from __future__ import annotations

from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, SecretStr, field_validator, model_validator

from quarantine.adapters.tickets.web import base_url
from quarantine.core.tickets import TicketState


class GitHubOptions(BaseModel):
    """One repository, and the token that may read and write its issues."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    repository: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9-]{0,38}/[A-Za-z0-9._-]{1,100}$")  # owner/name
    url: str = "https://api.github.com"  # GitHub Enterprise Server: https://<host>/api/v3
    token: SecretStr | None = None
    token_file: Path | None = None  # read anew for each call
    charts: str = Field(default="", pattern=r"^([A-Za-z0-9][A-Za-z0-9._/-]{0,199})?$")  # a branch; empty: none are kept
    states: dict[str, TicketState] = Field(default_factory=dict)  # label to state, beside `provider/<state>`

    @field_validator("url")
    @classmethod
    def _url(cls, url: str) -> str:
        return base_url(url)

    @model_validator(mode="after")
    def _one_token(self) -> GitHubOptions:
        if (self.token is None) == (self.token_file is None):
            raise ValueError("set either token_file or token")
        return self
