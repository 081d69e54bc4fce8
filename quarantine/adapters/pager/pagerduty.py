"""Alarms by PagerDuty's Events API v2: one alert for each key, opened by `trigger` and ended by `resolve`.

Its documentation (Events API v2, "Send an Alert Event"): a trigger of an alert that is open adds to its log, a resolve
of what is not open is dropped, and a trigger of what was resolved opens a new one. 429, 5xx and no answer are for
trying again; 400 is not.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping
from datetime import datetime
from http import HTTPStatus
from pathlib import Path
from typing import Self

from pydantic import BaseModel, ConfigDict, SecretStr, field_validator, model_validator

from quarantine.adapters.pager.errors import ERRORS
from quarantine.adapters.web import Web, base_url, plain, secret_of
from quarantine.core.alarms import Alarm
from quarantine.core.errors import PagerRefused
from quarantine.core.marks import shorten

_ROUTING_KEY = re.compile(r"[A-Za-z0-9]{32}")
_KEY = 255  # characters of a dedup_key
_SUMMARY = 1024
_SOURCE = 255
# An event has at most 512 KB. A character takes 12 bytes of it at most, as JSON, so these stay below.
_DETAILS, _NAME, _VALUE = 50, 100, 500


class PagerDutyOptions(BaseModel):
    """The integration that events are sent to."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    url: str = "https://events.pagerduty.com"  # https://events.eu.pagerduty.com for accounts in the EU
    routing_key: SecretStr | None = None
    routing_key_file: Path | None = None  # read anew for each event

    @field_validator("url")
    @classmethod
    def _url(cls, url: str) -> str:
        return base_url(url, "pager")

    @model_validator(mode="after")
    def _one_key(self) -> Self:
        if (self.routing_key is None) == (self.routing_key_file is None):
            raise ValueError("set either routing_key_file or routing_key")
        return self


class PagerDuty:
    """Implements `ports.Pager`."""

    name = "PagerDuty"
    repeats = None  # an alert is open until it is resolved

    def __init__(self, options: PagerDutyOptions, now: Callable[[], datetime]) -> None:
        self._web = Web(options.url, lambda: "", name=self.name, errors=ERRORS, now=now)
        self._routing_key = secret_of(
            options.routing_key, options.routing_key_file, "routing key of PagerDuty", refused=PagerRefused
        )

    def fire(self, alarm: Alarm) -> None:
        """Open an alert, or say again that it stands."""
        details = {shorten(plain(name), _NAME): shorten(plain(value), _VALUE) for name, value in alarm.details}
        payload = {
            "summary": shorten(plain(alarm.summary), _SUMMARY) or "alarm",
            "source": shorten(plain(alarm.source), _SOURCE) or "quarantine",
            "severity": alarm.urgency.value,
            "timestamp": alarm.since.isoformat(),
            "custom_details": dict(list(details.items())[:_DETAILS]),
        }
        self._send("trigger", alarm, {"client": "quarantine", "payload": payload})

    def clear(self, alarm: Alarm) -> None:
        """End it. Of the alarm, only the key counts."""
        self._send("resolve", alarm, {})

    def _send(self, action: str, alarm: Alarm, more: Mapping[str, object]) -> None:
        routing_key = self._routing_key()
        if not _ROUTING_KEY.fullmatch(routing_key):
            raise PagerRefused("the routing key of PagerDuty has not 32 letters and digits: take the integration's key")
        key = _dedup_key(alarm)
        call = self._web.call(f"{action} alarm {shorten(plain(key), 80)}", secrets=(routing_key,))
        event = {"routing_key": routing_key, "event_action": action, "dedup_key": key, **more}
        answer = call.send("POST", "/v2/enqueue", event)
        match answer.body:
            case {"status": "success", "dedup_key": known} if known == key and answer.status == HTTPStatus.ACCEPTED:
                return
        call.garbled(answer, wrote=True)


def connect(options: Mapping[str, object], now: Callable[[], datetime]) -> PagerDuty:
    """The pager of these options. Raises pydantic's ValidationError where they are wrong."""
    return PagerDuty(PagerDutyOptions.model_validate(options), now)


def _dedup_key(alarm: Alarm) -> str:
    """The alarm's key, or a digest of it where that is longer than PagerDuty takes."""
    key = alarm.key
    return key if len(key) <= _KEY else hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()
