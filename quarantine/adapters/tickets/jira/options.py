"""What the settings say of a Jira target."""

from __future__ import annotations

from pathlib import Path
from typing import Self

from pydantic import BaseModel, ConfigDict, Field, SecretStr, field_validator, model_validator

from quarantine.adapters.tickets.web import base_url
from quarantine.core.tickets import TicketState

_OURS = frozenset({"project", "issuetype", "summary", "description", "labels"})


class JiraOptions(BaseModel):
    """One project of Jira Cloud, the account that files there, and how its words are to be read."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    url: str  # https://<site>.atlassian.net; with a scoped token https://api.atlassian.com/ex/jira/<cloud id>
    site: str = ""  # what links to a ticket begin with, where that is not `url`
    project: str = Field(pattern=r"^[A-Z][A-Z0-9_]{1,254}$")  # its key
    issue_type: str = Field(default="Task", min_length=1, max_length=100)
    service_desk: str = Field(default="", pattern=r"^[0-9]{0,18}$")  # its id; filed as a request where it is set
    request_type: str = Field(default="", pattern=r"^[0-9]{0,18}$")
    user: str = Field(default="", max_length=254)  # the account's e-mail address; empty: the token is a bearer token
    token: SecretStr | None = None
    token_file: Path | None = None  # read anew for each call
    fields: dict[str, object] = Field(
        default_factory=dict
    )  # others that the project demands, by id, as Jira takes them
    states: dict[str, TicketState] = Field(default_factory=dict)  # names of statuses and resolutions
    close_transition: str = Field(default="", max_length=255)  # empty: the first that leads to a status of "done"
    resolution: str = Field(default="Done", max_length=255)  # given where the transition's screen has the field

    @field_validator("url", "site")
    @classmethod
    def _urls(cls, url: str) -> str:
        return base_url(url) if url else ""

    @field_validator("user")
    @classmethod
    def _one_name(cls, user: str) -> str:
        if ":" in user or not user.isprintable() or not user.isascii():
            raise ValueError("the user is the account's e-mail address")
        return user

    @field_validator("fields")
    @classmethod
    def _not_ours(cls, fields: dict[str, object]) -> dict[str, object]:
        if ours := sorted(_OURS & fields.keys()):
            raise ValueError(f"{', '.join(ours)} cannot be set here: the report sets it")
        return fields

    @model_validator(mode="after")
    def _sound(self) -> Self:
        if not self.url:
            raise ValueError("set url")
        if (self.token is None) == (self.token_file is None):
            raise ValueError("set either token_file or token")
        if bool(self.service_desk) != bool(self.request_type):
            raise ValueError("service_desk and request_type go together")
        return self
