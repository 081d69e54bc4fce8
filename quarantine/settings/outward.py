"""Who leads, who is woken, and who hears that the controller lives."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Self

from pydantic import Field, SecretStr, model_validator

from quarantine.core.units import Duration
from quarantine.settings.group import Group, Text
from quarantine.settings.values import SafeAddress, WebAddress


class Leader(Group):
    """Which of several replicas acts: the holder of a Lease in the cluster."""

    elect: bool | None = Field(
        default=None, description="Whether a Lease is held. Left out: in a pod yes, elsewhere not."
    )
    namespace: Text | None = Field(default=None, description="Of the Lease. Left out: the pod's own, else `default`.")
    name: Text = Field(default="quarantine-controller", description="Of the Lease.")
    lasts: Duration = Field(
        default=timedelta(seconds=15), description="For how long it is its holder's without being renewed."
    )
    renew_within: Duration = Field(
        default=timedelta(seconds=10), description="A holder that could not renew it for so long stops; shorter."
    )
    every: Duration = Field(default=timedelta(seconds=2), description="How often it is looked at and renewed.")

    @model_validator(mode="after")
    def _order(self) -> Self:
        if not self.every < self.renew_within < self.lasts:
            raise ValueError("every must be shorter than renew_within, and that shorter than lasts")
        return self


class Heartbeat(Group):
    """A sign of life to somebody who rings when none comes: the URL of a check at Healthchecks.io or its like."""

    url: SecretStr | None = Field(
        default=None,
        description="Posted to after each cycle that saw something. Left out: nobody is told. A secret, since who has "
        "it can keep up the appearance.",
    )
    url_file: Path | None = Field(default=None, description="Holds that URL.")
    every: Duration = Field(default=timedelta(minutes=1), description="No more often than this.")


class PagerDuty(Group):
    """PagerDuty's Events API, for what must wake somebody. It is in use once a routing key is given."""

    url: WebAddress = Field(
        default="https://events.pagerduty.com", description="`https://events.eu.pagerduty.com` for accounts in the EU."
    )
    routing_key: SecretStr | None = Field(default=None, description="Of an integration of the service.")
    routing_key_file: Path | None = Field(default=None, description="Holds it.")

    @property
    def options(self) -> Mapping[str, object] | None:
        """As the pager takes them; None: it is not in use."""
        return None if self.routing_key is None else {"url": self.url, "routing_key": self.routing_key}


class Alertmanager(Group):
    """Prometheus' Alertmanager, for what must wake somebody. It is in use once a URL is given."""

    urls: tuple[str, ...] = Field(
        default=(), max_length=10, description="All members of the cluster, without `/api/v2`; in the environment JSON."
    )
    labels: dict[str, str] = Field(
        default_factory=dict, description="Further labels of every alert, for its routes; in the environment JSON."
    )
    username: Text | None = Field(default=None, description="For basic authentication.")
    password: SecretStr | None = Field(default=None, description="Goes with `username`.")
    password_file: Path | None = Field(default=None, description="Holds it.")
    token: SecretStr | None = Field(default=None, description="Sent instead of a user name.")
    token_file: Path | None = Field(default=None, description="Holds it.")
    ca_file: Path | None = Field(default=None, description="PEM file of the authorities to trust instead of the usual.")
    repeat: Duration = Field(default=timedelta(minutes=1), description="How often an alarm that stands is said again.")
    ends_after: Duration = Field(
        default=timedelta(minutes=10), description="Without a word from us for so long, its alert is over."
    )

    @property
    def options(self) -> Mapping[str, object] | None:
        """As the pager takes them; None: it is not in use."""
        if not self.urls:
            return None
        given = {name: getattr(self, name) for name in type(self).model_fields}
        read = ("password_file", "token_file")  # their contents are the values by now
        return {name: value for name, value in given.items() if value is not None and name not in read}


class Grafana(Group):
    """Grafana's annotations: for how long which machine was out, on every chart that asks for them.

    It is in use once a URL is given.
    """

    url: SafeAddress | None = Field(
        default=None,
        description="With the path under which it is served, if there is one. Left out: no chart is annotated.",
    )
    token: SecretStr | None = Field(default=None, description="Of a service account with the role Editor.")
    token_file: Path | None = Field(default=None, description="Holds it.")
    dashboard: Text | None = Field(
        default=None,
        description="Uid of the one dashboard that shows them. Left out: any that asks for their tags.",
    )
    ca_file: Path | None = Field(default=None, description="PEM file of the authorities to trust instead of the usual.")

    @model_validator(mode="after")
    def _whole(self) -> Self:
        if self.url is not None and self.token is None:
            raise ValueError("grafana.url needs grafana.token_file, or grafana.token")
        return self

    @property
    def options(self) -> Mapping[str, object] | None:
        """As the adapter takes them; None: it is not in use."""
        if self.url is None:
            return None
        given = {"url": self.url, "token": self.token, "dashboard": self.dashboard, "ca_file": self.ca_file}
        return {name: value for name, value in given.items() if value is not None}
