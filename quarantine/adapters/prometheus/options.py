"""How Prometheus is reached, and as whom. No secret of it shows in a repr, a log or an error."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from pathlib import Path
from urllib.parse import unquote, urlsplit, urlunsplit

from pydantic import SecretStr

from quarantine.core.errors import UsageError

_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_HEADER_VALUE = re.compile(r"[\x20-\x7e\x80-\xff]*")
_ONE_LINE = re.compile(r"[^\x00-\x1f\x7f]*")
_TOO_SHORT_TO_HIDE = 4  # a shorter "secret" would blot out half a sentence


class Flavour(StrEnum):
    """Whose answer it is: each needs other parameters before it admits that an answer is incomplete."""

    PROMETHEUS = "prometheus"
    THANOS = "thanos"
    VICTORIAMETRICS = "victoriametrics"
    MIMIR = "mimir"


# Thanos answers 200 with warnings while a store is down, and VictoriaMetrics 200 with isPartial: both are told to fail
# instead. Downsampled data hides a hot minute. Without nocache VictoriaMetrics shifts recent queries into the past.
PARAMETERS: Mapping[Flavour, Mapping[str, str]] = {
    Flavour.PROMETHEUS: {},
    Flavour.THANOS: {"dedup": "true", "partial_response": "false", "max_source_resolution": "0s"},
    Flavour.VICTORIAMETRICS: {"deny_partial_response": "1", "nocache": "1"},
    Flavour.MIMIR: {},
}


@dataclass(frozen=True)
class PrometheusSettings:
    """What `PrometheusMetrics` needs. A secret is a value, or a file that is read again for every query (it rotates).

    A user name and password in `url` are moved to their fields. Raises UsageError where nothing could ever be asked.
    """

    url: str  # without /api/v1/query
    timeout: timedelta = timedelta(seconds=20)  # the most that a query may take, whatever its caller allows
    flavour: Flavour = Flavour.PROMETHEUS
    username: str = ""
    password: SecretStr | Path | None = None
    bearer_token: SecretStr | Path | None = None
    tenant: str = ""  # X-Scope-OrgID
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)  # API keys live here too
    ca_file: Path | None = None
    cert_file: Path | None = None
    key_file: Path | None = None
    verify: bool = True  # False: do not check the server's certificate
    max_body: int = 64 * 1024 * 1024  # bytes of an answer, decompressed
    max_parallel: int = 32  # queries at once; more of them wait within their own timeout
    now: Callable[[], datetime] | None = field(default=None, repr=False)  # our clock; None: the far one is not compared
    clock_tolerance: timedelta = timedelta(minutes=1)  # by how much the server's may differ; zero: by any

    def __post_init__(self) -> None:
        self._split_url()
        if self.bearer_token is not None and (self.username or self.password is not None):
            raise UsageError(f"{self.url} is given a bearer token and a user name; give one of them.")
        if self.key_file is not None and self.cert_file is None:
            raise UsageError(f"{self.url} is given a key and no certificate; give both, or a file that holds both.")
        for name, value in self.all_headers().items():
            if not _HEADER_NAME.fullmatch(name) or not _HEADER_VALUE.fullmatch(value):
                raise UsageError(f"The header {name!r} for {self.url} cannot be sent; remove line breaks and spaces.")
        for secret in (self.password, self.bearer_token):
            if isinstance(secret, SecretStr) and not _ONE_LINE.fullmatch(secret.get_secret_value()):
                raise UsageError(f"The password or token for {self.url} is not one line of text; remove line breaks.")

    def _split_url(self) -> None:
        try:
            parts = urlsplit(self.url)
            host, port = parts.hostname, parts.port
        except ValueError:
            raise UsageError("The URL of Prometheus cannot be read; write http://host:9090.") from None
        bare = parts.netloc.rpartition("@")[2]
        shown = f"{parts.scheme}://{bare}{parts.path}"
        if parts.scheme not in {"http", "https"} or not host or port == 0:
            raise UsageError(f"The URL of Prometheus is {shown!r}; write http://host:9090 or https://host.")
        if parts.query or parts.fragment:
            raise UsageError(f"The URL of Prometheus, {shown}, may not go on after its path; remove what follows it.")
        if parts.username and not self.username:
            object.__setattr__(self, "username", unquote(parts.username))
            object.__setattr__(self, "password", SecretStr(unquote(parts.password or "")))
        object.__setattr__(self, "url", urlunsplit((parts.scheme, bare, parts.path.rstrip("/"), "", "")))

    @property
    def endpoint(self) -> str:
        """Where instant queries are asked; it holds no secret."""
        return f"{self.url}/api/v1/query"

    def all_headers(self) -> dict[str, str]:
        """What every request carries besides the credentials."""
        tenant = {"X-Scope-OrgID": self.tenant} if self.tenant else {}
        return {"Accept": "application/json", **self.headers, **tenant}

    def authorization(self) -> str | None:
        """The Authorization header's value. Raises OSError or ValueError where its file is of no use."""
        if self.bearer_token is not None:
            token = _reveal(self.bearer_token)
            if not _HEADER_VALUE.fullmatch(token):
                raise ValueError("the bearer token has characters that no header may have")
            return f"Bearer {token}"
        if self.username:
            password = _reveal(self.password) if self.password is not None else ""
            return "Basic " + base64.b64encode(f"{self.username}:{password}".encode()).decode()
        return None

    def mask(self, text: str) -> str:
        """`text` without our secrets: an echoing server sends them back."""
        for secret in self._secrets():
            text = text.replace(secret, "***")
        return text

    def scrub(self, body: bytes) -> bytes:
        """The same of a whole answer, whose labels are kept as evidence."""
        for secret in self._secrets():
            body = body.replace(secret.encode(), b"***")
        return body

    def _secrets(self) -> list[str]:
        """The longest first."""
        secrets = set(self.headers.values())
        with suppress(OSError, ValueError):
            secrets.add((self.authorization() or "").partition(" ")[2])
            secrets.add(_reveal(self.password) if self.password is not None else "")
        return sorted((one for one in secrets if len(one) >= _TOO_SHORT_TO_HIDE), key=len, reverse=True)


def _reveal(secret: SecretStr | Path) -> str:
    if isinstance(secret, SecretStr):
        return secret.get_secret_value()
    try:
        text = secret.read_text(encoding="utf-8").strip()
    except UnicodeDecodeError:
        raise ValueError(f"{secret} is not text") from None
    if not text or not _ONE_LINE.fullmatch(text):
        raise ValueError(f"{secret} does not hold one line of text")
    return text
