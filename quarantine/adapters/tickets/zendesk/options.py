"""The options of a Zendesk target."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, SecretStr, model_validator

from quarantine.adapters.tickets.web import base_url
from quarantine.core.tickets import TicketState

# Zendesk makes others of a tag: it splits at spaces, and turns to lower case.
Tag = Annotated[str, Field(pattern=r"^[a-z0-9_:/.-]{1,80}$")]


class ZendeskOptions(BaseModel):
    """One account, the agent that files there, and where its tickets go."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    url: Annotated[str, AfterValidator(base_url)]  # https://<subdomain>.zendesk.com
    email: str = Field(default="", pattern=r"^([^\s:/@]+@[^\s:/@]+)?$")  # of the agent; empty: the token is OAuth's
    token: SecretStr | None = None
    token_file: Path | None = None  # read anew for each call
    group_id: int | None = Field(default=None, gt=0)  # the group that gets the tickets
    requester_id: int | None = Field(default=None, gt=0)  # whom they are from; None: the agent
    brand_id: int | None = Field(default=None, gt=0)
    priority: Literal["low", "normal", "high", "urgent"] | None = None
    tags: tuple[Tag, ...] = Field(default=(), max_length=20)
    public: bool = True  # False: internal notes, which only agents see
    states: dict[str, TicketState] = Field(default_factory=dict)  # a status word, a custom status' id, or a tag

    @model_validator(mode="after")
    def _one_token(self) -> Self:
        if (self.token is None) == (self.token_file is None):
            raise ValueError("set either token_file or token")
        return self
