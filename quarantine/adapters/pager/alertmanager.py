"""Alarms as alerts of Prometheus' Alertmanager (API v2), which routes them, silences them and groups them.

An alert is known by its labels, so they are the same each time that an alarm is said: nothing in them changes but its
urgency, and when that does, the alert of the earlier one is ended. Alertmanager keeps alerts in memory, and takes one
for over at its `endsAt`: its documentation expects clients "to re-send firing alerts at regular intervals", and those
that are over "for up to 5 minutes". So `fire` is to be repeated while an alarm stands, and where it is not, for
whatever reason, the alert ends by itself.

The members of a cluster do not pass alerts on to one another: each is told. It is enough that one has taken it.
"""

from __future__ import annotations

import base64
import logging
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Annotated, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, SecretStr, model_validator

from quarantine.adapters.pager.errors import ERRORS
from quarantine.adapters.web import WAIT, WHOLE, Web, base_url, plain, secret_of
from quarantine.core.alarms import Alarm
from quarantine.core.errors import PagerRefused, PagerUnavailable
from quarantine.core.marks import shorten
from quarantine.core.reasons import in_words

_log = logging.getLogger(__name__)

_LABEL = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")
_OURS = frozenset({"alertname", "severity", "cluster", "key"})
_LONGEST = 1024  # characters of a label, and of each line of an annotation
_LINES = 50
_FEWEST = 3  # times that an alarm can be said before its alert ends


def _url(url: str) -> str:
    return base_url(url, "Alertmanager", plain=True)


def _labels(labels: dict[str, str]) -> dict[str, str]:
    for name, value in labels.items():
        if not _LABEL.fullmatch(name) or name in _OURS or not value:
            raise ValueError(f"{name!r} cannot be set: labels have names of letters, digits and _, are not empty, and "
                             f"are none of {', '.join(sorted(_OURS))}")  # fmt: skip
    return labels


class AlertmanagerOptions(BaseModel):
    """Where the Alertmanagers are, and as whom they are asked."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    urls: tuple[Annotated[str, AfterValidator(_url)], ...] = Field(min_length=1, max_length=10)  # without /api/v2
    labels: Annotated[dict[str, str], AfterValidator(_labels)] = Field(default_factory=dict)  # for your routes
    username: str = ""
    password: SecretStr | None = None
    password_file: Path | None = None
    token: SecretStr | None = None
    token_file: Path | None = None
    ca_file: Path | None = None  # None: the system's
    repeat: timedelta = Field(default=timedelta(minutes=1), ge=timedelta(seconds=5), le=timedelta(hours=1))
    ends_after: timedelta = Field(default=timedelta(minutes=10), le=timedelta(days=1))  # without a word from us

    @model_validator(mode="after")
    def _sound(self) -> Self:
        password, token = (self.password, self.password_file), (self.token, self.token_file)
        if None not in password or None not in token:
            raise ValueError("give a secret as its value or as a file, not both")
        if bool(self.username) != any(one is not None for one in password):
            raise ValueError("a username needs a password or password_file, and the other way round")
        if self.username and any(one is not None for one in token):
            raise ValueError("give a username or a token, not both")
        if self.username or any(one is not None for one in token):
            for url in self.urls:
                base_url(url, "Alertmanager")  # nothing secret is sent in the clear
        if self.ends_after < self.repeat * _FEWEST:
            raise ValueError(f"ends_after is less than {_FEWEST} times repeat: a single failure would end an alarm")
        return self


class Alertmanager:
    """Implements `ports.Pager` over one Alertmanager, or over all members of a cluster of them."""

    name = "Alertmanager"

    def __init__(self, options: AlertmanagerOptions, now: Callable[[], datetime]) -> None:
        self._options = options
        self._now = now
        whole = WHOLE / len(options.urls)
        self._members = [
            Web(
                url,
                _authorization(options),
                name=self.name,
                errors=ERRORS,
                now=now,
                wait=min(WAIT, whole),
                whole=whole,
                ca_file=options.ca_file,
            )
            for url in options.urls
        ]
        self._said: dict[str, dict[str, str]] = {}  # by key: the labels of the alert that stands
        self._silent: tuple[str, ...] = ()  # members that did not take the last one

    @property
    def repeats(self) -> timedelta:
        """How often `fire` is to be called while an alarm stands."""
        return self._options.repeat

    def fire(self, alarm: Alarm) -> None:
        """Say that it stands, until `ends_after` from now."""
        now = self._now()
        labels = self._labels(alarm)
        annotations = {
            "summary": shorten(plain(alarm.summary), _LONGEST) or "alarm",
            "description": "\n".join(_line(name, value) for name, value in alarm.details[:_LINES]),
        }
        alerts = [_alert(labels, annotations, alarm, now, now + self._options.ends_after)]
        before = self._said.get(alarm.key)
        if before is not None and before != labels:
            alerts.append(_alert(before, {}, alarm, now, now))
        self._send(f"send alarm {shorten(plain(alarm.key), 80)}", alerts)
        self._said[alarm.key] = labels

    def clear(self, alarm: Alarm) -> None:
        """Say that it is over. Where another process has sent it, as urgent as `alarm` says it was."""
        now = self._now()
        labels = self._said.get(alarm.key) or self._labels(alarm)
        self._send(f"end alarm {shorten(plain(alarm.key), 80)}", [_alert(labels, {}, alarm, now, now)])
        self._said.pop(alarm.key, None)

    def _labels(self, alarm: Alarm) -> dict[str, str]:
        ours = {
            "alertname": "QuarantineAlarm",
            "severity": alarm.urgency.value,
            "cluster": shorten(plain(alarm.source), _LONGEST),
            "key": shorten(plain(alarm.key), _LONGEST),
        }
        return {**self._options.labels, **{name: value for name, value in ours.items() if value}}

    def _send(self, doing: str, alerts: Sequence[Mapping[str, object]]) -> None:
        failed: list[tuple[str, PagerUnavailable | PagerRefused]] = []
        for member in self._members:
            try:
                member.call(doing).send("POST", "/api/v2/alerts", alerts)
            except (PagerUnavailable, PagerRefused) as error:
                failed.append((member.base, error))
        if len(failed) == len(self._members):
            self._none_took_it([error for _, error in failed])
        silent = tuple(base for base, _ in failed)
        if silent and silent != self._silent:
            why = "; ".join(str(error) for _, error in failed)
            _log.warning("the Alertmanagers at %s do not take alarms, and others do: %s", in_words(list(silent)), why)
        self._silent = silent

    def _none_took_it(self, errors: Sequence[PagerUnavailable | PagerRefused]) -> None:
        """Raises: an Alertmanager that is down may come back, one that says no stays so."""
        said = "; ".join(str(error) for error in errors)
        down = [error for error in errors if isinstance(error, PagerUnavailable)]
        if not down:
            raise PagerRefused(said)
        raise PagerUnavailable(said, retry_after=min((e.retry_after for e in down if e.retry_after), default=None))


def connect(options: Mapping[str, object], now: Callable[[], datetime]) -> Alertmanager:
    """The pager of these options. Raises pydantic's ValidationError where they are wrong."""
    return Alertmanager(AlertmanagerOptions.model_validate(options), now)


def _alert(
    labels: Mapping[str, str], annotations: Mapping[str, str], alarm: Alarm, now: datetime, ends: datetime
) -> dict[str, object]:
    """`startsAt` must not be after `endsAt`."""
    told = {name: value for name, value in annotations.items() if value}
    starts = min(alarm.since, now)
    return {"labels": labels, "annotations": told, "startsAt": starts.isoformat(), "endsAt": ends.isoformat()}


def _line(name: str, value: str) -> str:
    return shorten(f"{plain(name)}: {plain(value)}", _LONGEST)


def _authorization(options: AlertmanagerOptions) -> Callable[[], str]:
    if options.username:
        password = secret_of(options.password, options.password_file, "password of Alertmanager", refused=PagerRefused)
        return lambda: "Basic " + base64.b64encode(f"{options.username}:{password()}".encode()).decode()
    if options.token is not None or options.token_file is not None:
        token = secret_of(options.token, options.token_file, "token of Alertmanager", refused=PagerRefused)
        return lambda: f"Bearer {token()}"
    return lambda: ""
