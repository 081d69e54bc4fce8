"""Every setting: its name, meaning, default and what it may be. Reading them is `quarantine.settings.reading`."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

from pydantic import Field, SecretStr, model_validator
from pydantic_settings import BaseSettings, NoDecode, PydanticBaseSettingsSource, SettingsConfigDict

from quarantine.core.document import Name
from quarantine.core.model import Mode
from quarantine.core.units import Duration, format_duration
from quarantine.settings.group import Group, Text
from quarantine.settings.outward import Alertmanager, Grafana, Heartbeat, Leader, PagerDuty
from quarantine.settings.tickets import Tickets
from quarantine.settings.values import (
    Database,
    LabelPrefix,
    ListenAddress,
    Lower,
    OrZero,
    Paths,
    SafeAddress,
    WebAddress,
)

if TYPE_CHECKING:
    from quarantine.adapters.prometheus import PrometheusSettings

_SECRET_HEADERS = {"authorization", "proxy-authorization", "cookie"}


def shipped_policies() -> Path:
    """The directory of policies that comes with this package: of the wheel, or of the source tree."""
    package = Path(__file__).parents[1]
    packaged = package / "_policies"
    return packaged if packaged.is_dir() else package.parent / "policies"


class Cycle(Group):
    """The reconcile cycle."""

    interval: Duration = Field(default=timedelta(seconds=15), description="From one cycle's start to the next.")
    deadline: Duration = Field(
        default=timedelta(seconds=60), description="What a cycle may take; what is not done by then waits for the next."
    )
    coverage_interval: Duration = Field(
        default=timedelta(minutes=5), description="How often is asked which devices each policy can see at all."
    )
    settle: int = Field(
        default=3,
        ge=0,
        le=1000,
        description="For how many cycles a policy that is new or was changed only observes, whatever its mode; what "
        "changes its text alone does not count.",
    )

    @model_validator(mode="after")
    def _order(self) -> Self:
        if self.coverage_interval < self.interval:
            raise ValueError("coverage_interval may not be shorter than interval")
        return self


class Prometheus(Group):
    """Prometheus, or what speaks its API."""

    url: WebAddress = Field(
        default="http://127.0.0.1:9090", description="Base URL, without `/api/v1`; a path before that is kept."
    )
    flavour: Literal["prometheus", "thanos", "victoriametrics", "mimir"] = Field(
        default="prometheus", description="Who answers: each is told in its own way to fail rather than answer in part."
    )
    timeout: Duration = Field(default=timedelta(seconds=20), description="What one query may take, all in all.")
    delay: OrZero = Field(
        default=timedelta(0),
        description="Evaluate so far in the past; with remote write or replicas the newest samples arrive late.",
    )
    clock_tolerance: OrZero = Field(
        default=timedelta(minutes=1),
        description="By how much the server's clock may differ from ours before its answers count for nothing; `0s`: "
        "not looked at.",
    )
    username: Text | None = Field(default=None, description="For basic authentication.")
    password: SecretStr | None = Field(default=None, description="Goes with `username`.")
    password_file: Path | None = Field(default=None, description="Holds the password; read again for every query.")
    bearer_token: SecretStr | None = Field(default=None, description="Sent instead of a user name.")
    bearer_token_file: Path | None = Field(
        default=None, description="Holds the token; read again for every query, since service account tokens rotate."
    )
    ca_file: Path | None = Field(default=None, description="PEM file of the authorities to trust instead of the usual.")
    cert_file: Path | None = Field(default=None, description="PEM file of the client's certificate.")
    key_file: Path | None = Field(default=None, description="PEM file of its key, unless `cert_file` holds it too.")
    verify: bool = Field(default=True, description="Whether the server's certificate is checked.")
    tenant: Text | None = Field(default=None, description="Sent as `X-Scope-OrgID`: Mimir's tenant.")
    headers: dict[str, str] = Field(
        default_factory=dict, repr=False, description="Further headers; in the environment a JSON object."
    )

    @model_validator(mode="after")
    def _credentials(self) -> Self:
        token = self.bearer_token is not None or self.bearer_token_file is not None
        password = self.password is not None or self.password_file is not None
        if token and (password or self.username is not None):
            raise ValueError("give either a bearer token or a user name and password")
        if password and self.username is None:
            raise ValueError("a password needs its username")
        if self.key_file is not None and self.cert_file is None:
            raise ValueError("key_file needs its cert_file")
        names = {name.lower() for name in self.headers}
        if names & _SECRET_HEADERS:
            raise ValueError("headers may hold no credentials; use bearer_token_file, or username and password_file")
        if self.tenant is not None and "x-scope-orgid" in names:
            raise ValueError("the tenant is given twice; take X-Scope-OrgID out of headers")
        return self

    def connection(self, now: Callable[[], datetime] | None = None) -> PrometheusSettings:
        """What the adapter takes. Raises UsageError where the headers cannot be sent.

        `now`: where what is answered must be about this moment.
        """
        from quarantine.adapters.prometheus import Flavour, PrometheusSettings

        return PrometheusSettings(
            url=self.url,
            timeout=self.timeout,
            flavour=Flavour(self.flavour),
            username=self.username or "",
            password=self.password_file or self.password,
            bearer_token=self.bearer_token_file or self.bearer_token,
            tenant=self.tenant or "",
            headers=self.headers,
            ca_file=self.ca_file,
            cert_file=self.cert_file,
            key_file=self.key_file,
            verify=self.verify,
            now=now,
            clock_tolerance=self.clock_tolerance,
        )


class Kubernetes(Group):
    """The cluster whose nodes are looked after."""

    kubeconfig: Path | None = Field(
        default=None, description="A kubeconfig file. Left out: the pod's own account, else the usual kubeconfig."
    )
    context: Text | None = Field(default=None, description="A context of the kubeconfig; left out, its current one.")
    timeout: Duration = Field(default=timedelta(seconds=10), description="What one request may take.")
    prefix: LabelPrefix = Field(
        default="quarantine.gpu", description="Of every taint, label and annotation that is written."
    )
    relist: Duration = Field(
        default=timedelta(minutes=10), description="How often all nodes are listed anew, however well the watch runs."
    )
    stale_after: Duration = Field(
        default=timedelta(minutes=5), description="A node cache that heard nothing for so long is not judged from."
    )


class Slack(Group):
    """Where people are told and asked. It is in use once a token and a channel are given."""

    token: SecretStr | None = Field(default=None, description="The bot's token, `xoxb-…`.")
    token_file: Path | None = Field(default=None, description="Holds the token.")
    channel: Text | None = Field(
        default=None, description="The channel's id, such as `C0123456789`; its name will not do."
    )
    app_token: SecretStr | None = Field(
        default=None,
        description="The app's token, `xapp-…`: buttons and `/quarantine` are listened to by Socket Mode, without a "
        "door to the inside.",
    )
    app_token_file: Path | None = Field(default=None, description="Holds it.")
    signing_secret: SecretStr | None = Field(
        default=None,
        description="The app's: buttons and `/quarantine` are listened to at `door.listen`, below `/slack`, instead.",
    )
    signing_secret_file: Path | None = Field(default=None, description="Holds it.")
    digest: Annotated[str, Field(pattern=r"^([01]\d|2[0-3]):[0-5]\d$")] | None = Field(
        default=None, description="When what stands is told once a day, `07:00`, in UTC. Left out: it is not."
    )
    base_url: SafeAddress = Field(default="https://slack.com/api/", description="Where Slack's API is.")

    @property
    def enabled(self) -> bool:
        """Whether anything is posted."""
        return self.token is not None and self.channel is not None

    @property
    def listens(self) -> bool:
        """Whether what people click and type is heard."""
        return self.enabled and (self.app_token is not None or self.signing_secret is not None)


class Procedures(Group):
    """How procedures are run: resets, reboots, burn-ins, bug reports."""

    commands: bool = Field(
        default=False,
        description="Whether those that are a command may run, where the controller runs and with its rights. Jobs "
        "always may. Whoever can change a policy file can then run programs here.",
    )


class Metrics(Group):
    """The controller's own metrics, for a Prometheus to scrape."""

    listen: ListenAddress = Field(
        default="",
        description="Where `/metrics` and the probes `/livez` and `/readyz` are served, as `host:port` (`:9469` is "
        "every address); empty: nowhere.",
    )


class Door(Group):
    """Where others may call in: Slack by HTTPS, and webhooks' receivers. Nothing is open by default."""

    listen: ListenAddress = Field(
        default="",
        description="As `host:port`; empty: nowhere. It speaks plain HTTP: put what ends TLS before it.",
    )


class Log(Group):
    """What is told on stderr."""

    level: Annotated[Literal["debug", "info", "warning", "error"], Lower] = Field(
        default="info", description="The least important that is shown."
    )
    format: Annotated[Literal["console", "json"], Lower] = Field(
        default="console", description="For people, or a JSON object a line."
    )


class Settings(BaseSettings):
    """All of them. Built from what it is given and nothing else: `load` reads file and environment."""

    model_config = SettingsConfigDict(
        env_prefix="QUARANTINE_", env_nested_delimiter="__", extra="forbid", frozen=True, hide_input_in_errors=True
    )

    cluster: Name = Field(
        default="default", description="This cluster's name in the ledger, which several may share, and in messages."
    )
    mode: Mode = Field(
        default=Mode.OBSERVE,
        description="How far the controller may go, whatever its policies say. `enforce` is a deliberate word.",
    )
    policies: Annotated[tuple[Path, ...], NoDecode, Paths, Field(min_length=1)] = Field(
        default_factory=lambda: (shipped_policies(),),
        description="Files or directories of policies; in the environment separated by `:`.",
    )
    database_url: Database = Field(
        default=SecretStr("sqlite:///quarantine.db"), description="The ledger: Postgres, or SQLite for a first try."
    )
    database_url_file: Path | None = Field(default=None, description="Holds that URL, if it has a password in it.")
    cycle: Cycle = Field(default=Cycle(), description="The reconcile cycle.")
    prometheus: Prometheus = Field(default=Prometheus(), description="Prometheus, or what speaks its API.")
    kubernetes: Kubernetes = Field(default=Kubernetes(), description="The cluster whose nodes are looked after.")
    slack: Slack = Field(default=Slack(), description="Where people are told and asked.")
    tickets: Tickets = Field(default=Tickets(), description="Where machines are reported, and replacements asked for.")
    procedures: Procedures = Field(
        default=Procedures(), description="How procedures are run: resets, reboots, burn-ins, bug reports."
    )
    metrics: Metrics = Field(default=Metrics(), description="The controller's own metrics, for a Prometheus to scrape.")
    door: Door = Field(default=Door(), description="Where others may call in.")
    leader: Leader = Field(default=Leader(), description="Which of several replicas acts.")
    heartbeat: Heartbeat = Field(default=Heartbeat(), description="A sign of life to somebody who rings without it.")
    pagerduty: PagerDuty = Field(default=PagerDuty(), description="PagerDuty, for what must wake somebody.")
    alertmanager: Alertmanager = Field(default=Alertmanager(), description="Alertmanager, for the same.")
    grafana: Grafana = Field(default=Grafana(), description="Grafana, for what charts should show.")
    log: Log = Field(default=Log(), description="What is told on stderr.")

    @model_validator(mode="after")
    def _times(self) -> Self:
        if self.prometheus.timeout > self.cycle.deadline:
            longest = format_duration(self.cycle.deadline)
            raise ValueError(f"prometheus.timeout may not be longer than cycle.deadline, which is {longest}")
        return self

    @model_validator(mode="after")
    def _heard(self) -> Self:
        if self.slack.signing_secret is not None and not self.door.listen:
            raise ValueError("slack.signing_secret needs door.listen, where Slack calls in; or take slack.app_token")
        return self

    @classmethod
    def settings_customise_sources(cls, *_: Any, **sources: Any) -> tuple[PydanticBaseSettingsSource, ...]:
        """Nothing of the process' environment seeps in: the same arguments make the same settings."""
        return (sources["init_settings"],)
