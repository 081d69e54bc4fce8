"""The options of an e-mail target."""

from __future__ import annotations

import re
from ipaddress import ip_address
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, SecretStr, model_validator

_ADDRESS = re.compile(r"[A-Za-z0-9.!#$%&'*+/=?^_`{|}~-]{1,64}@[A-Za-z0-9](?:[A-Za-z0-9.-]{0,250}[A-Za-z0-9])?")
_HOST = re.compile(r"[A-Za-z0-9._:-]{1,253}")
_PORTS = {"starttls": 587, "tls": 465, "none": 25}


def _address(text: str) -> str:
    if not _ADDRESS.fullmatch(text):
        raise ValueError("write a bare address in ASCII, such as rma@example.com")
    return text


def _host(text: str) -> str:
    if not _HOST.fullmatch(text):
        raise ValueError("write a host name or an address, without scheme, user or path")
    return text


MailAddress = Annotated[str, AfterValidator(_address)]


class EmailOptions(BaseModel):
    """Where mail is handed in, from whom, and to whom."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    host: Annotated[str, AfterValidator(_host)]
    port: int = Field(default=0, ge=0, le=65535)  # 0: the usual one of `security`
    security: Literal["starttls", "tls", "none"] = "starttls"  # none: only to this machine itself
    ca_file: Path | None = None  # None: the system's
    username: str = Field(default="", pattern=r"^[\x21-\x7e]*$")  # what the login can carry
    password: SecretStr | None = None
    password_file: Path | None = None
    sender: MailAddress
    recipients: tuple[MailAddress, ...] = Field(min_length=1, max_length=20)

    @model_validator(mode="after")
    def _sound(self) -> Self:
        if self.security == "none" and not _loopback(self.host):
            raise ValueError("security: none is only for 127.0.0.1, ::1 and localhost; use starttls or tls")
        if self.password is not None and self.password_file is not None:
            raise ValueError("give password or password_file, not both")
        if bool(self.username) != (self.password is not None or self.password_file is not None):
            raise ValueError("a username needs a password or password_file, and the other way round")
        return self

    @property
    def usual_port(self) -> int:
        """The port to connect to."""
        return self.port or _PORTS[self.security]

    @property
    def domain(self) -> str:
        """The sender's, which Message-IDs are made in."""
        return self.sender.rpartition("@")[2]


def _loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
