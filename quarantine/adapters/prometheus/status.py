"""The server beside its queries: its clock, its version, and for how long it keeps samples."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from contextlib import closing
from datetime import UTC, datetime, timedelta
from typing import Any

import requests
import urllib3

from quarantine.adapters.prometheus.answer import samples
from quarantine.adapters.prometheus.options import PARAMETERS, Flavour, PrometheusSettings
from quarantine.adapters.prometheus.problems import Problem, translate
from quarantine.adapters.prometheus.session import AskingSession
from quarantine.core.errors import Refused, Unavailable
from quarantine.core.model import FailureKind

_REFUSED = (FailureKind.REFUSED, FailureKind.MISCONFIGURED, FailureKind.REJECTED)
_LIMIT = 1 << 20  # bytes of a status
_AGE = re.compile(r"(?:[0-9]+(?:ms|[smhdwy]))+")
_UNITS = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604_800, "y": 31_536_000}


class _Reading(AskingSession):
    """Reads what is no query: with the same credentials, and as strictly."""

    def request(self, *args: Any, **kwargs: Any) -> requests.Response:
        """As requests', without a redirect."""
        return requests.Session.request(self, *args, **{**kwargs, "allow_redirects": False})


class PrometheusStatus:
    """To be closed. The settings are those that `PrometheusMetrics` has taken."""

    def __init__(self, settings: PrometheusSettings, now: Callable[[], datetime]) -> None:
        """`now`: aware, UTC."""
        self.url = settings.url
        self._settings = settings
        self._now = now
        self._asking, self._reading = AskingSession(settings), _Reading(settings)

    def close(self) -> None:
        """Give the connections back."""
        self._asking.close()
        self._reading.close()

    def clock(self) -> timedelta:
        """By how much the server's clock is ahead of ours at the least: nothing of it is the time that the answer took.

        Raises Unavailable, and Refused for an answer that will stay the same.
        """
        parameters = {**PARAMETERS[self._settings.flavour], "query": "vector(time())"}
        before = self._now()
        try:
            answer = self._asking.get(self._settings.endpoint, params=parameters).json()
            result = answer["data"]["result"]
            at = datetime.fromtimestamp(float(result[0]["value"][1]), UTC)
            samples(result, at)  # of the documented form
        except Problem as problem:
            raise _told(problem, self._settings.endpoint) from problem
        except (requests.RequestException, urllib3.exceptions.HTTPError, OSError) as error:
            raise _told(translate(error), self._settings.endpoint) from error
        except (LookupError, TypeError, ValueError, OverflowError) as error:
            raise Unavailable(
                f"{self._settings.endpoint} answered without its time; check that prometheus.url leads to Prometheus."
            ) from error
        return min(max(timedelta(0), at - self._now()), at - before)

    def version(self) -> str:
        """As it says; empty where it does not."""
        told = self._status("buildinfo").get("version")
        return told[:40] if isinstance(told, str) and told.isprintable() else ""

    def keeps(self) -> timedelta | None:
        """For how long samples are kept, where it says so; Thanos and its like keep theirs elsewhere."""
        if self._settings.flavour is not Flavour.PROMETHEUS:
            return None
        told = self._status("runtimeinfo").get("storageRetention")
        found = _AGE.match(told) if isinstance(told, str) else None  # `15d`, `15d or 50GiB`, or a size alone
        if found is None:
            return None
        parts = re.findall(r"([0-9]{1,9})(ms|[smhdwy])", found[0])
        return timedelta(seconds=min(sum(int(n) * _UNITS[unit] for n, unit in parts), 1e10))

    def _status(self, what: str) -> Mapping[str, Any]:
        """The `data` of a status; empty where there is none, which says nothing about queries."""
        seconds = self._settings.timeout.total_seconds()
        try:
            found = self._reading.get(f"{self.url}/api/v1/status/{what}", timeout=seconds, stream=True)
            with closing(found):
                body = json.loads(found.raw.read(_LIMIT, decode_content=True))
        except (Problem, requests.RequestException, urllib3.exceptions.HTTPError, OSError, ValueError, RecursionError):
            return {}
        data = body.get("data") if isinstance(body, dict) else None
        return data if isinstance(data, dict) else {}


def _told(problem: Problem, url: str) -> Unavailable | Refused:
    return (Refused if problem.kind in _REFUSED else Unavailable)(problem.sentence(url))
