"""The Metrics port, on prometheus-api-client."""

from __future__ import annotations

import logging
import ssl
import warnings
from abc import ABC, abstractmethod
from datetime import datetime, timedelta
from threading import BoundedSemaphore, Lock, Thread
from time import monotonic
from types import TracebackType
from typing import Any, Self

import requests
import urllib3
from prometheus_api_client.exceptions import PrometheusApiClientException
from prometheus_api_client.prometheus_connect import PrometheusConnect

from quarantine.adapters.exchange import CURRENT, Exchange
from quarantine.adapters.prometheus import ranges
from quarantine.adapters.prometheus.answer import samples, unix_seconds
from quarantine.adapters.prometheus.options import PARAMETERS, PrometheusSettings
from quarantine.adapters.prometheus.problems import Problem, flat, reason, too_late, translate
from quarantine.adapters.prometheus.session import AskingSession
from quarantine.core.errors import UsageError
from quarantine.core.model import Answer, Failed, FailureKind, Sample, Samples
from quarantine.core.series import Grid, RangeAnswer, Track, Tracks

_log = logging.getLogger(__name__)
_REMEMBERED = 1000  # queries of which it is known how long a stretch the server takes at once


class PrometheusMetrics:
    """Instant and range queries. Several threads may ask at once. Raises UsageError where the settings cannot work."""

    def __init__(self, settings: PrometheusSettings) -> None:
        _check_certificates(settings)
        if not settings.verify:  # the operator's word; urllib3 would repeat its doubt at every query
            warnings.simplefilter("ignore", urllib3.exceptions.InsecureRequestWarning)
        self._settings = settings
        self._session = AskingSession(settings)
        self._client = PrometheusConnect(url=settings.url, session=self._session)
        self._session.use_breakable_connections()
        self._free = BoundedSemaphore(settings.max_parallel)
        self._lock = Lock()
        self._running: set[Exchange] = set()
        self._closed = False
        self._longest: dict[str, int] = {}

    def __repr__(self) -> str:
        return f"PrometheusMetrics({self._settings.url})"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Break off what is being asked, and give the connections back. Asking later is Failed."""
        with self._lock:
            self._closed = True
            running = tuple(self._running)
        for exchange in running:
            exchange.break_off()
        end = monotonic() + 1  # a thread in a name look-up cannot be woken: it is left to end by itself
        for exchange in running:
            exchange.finished.wait(max(0.0, end - monotonic()))
        self._client.close()

    def query(self, promql: str, *, at: datetime, timeout: timedelta) -> Answer:
        """An instant query evaluated at `at`. Never raises. Ends within `timeout` and the settings' own."""
        question = _Instant(promql, at)
        try:
            self._ask_in_time(question, timeout)
        except Problem as problem:
            return Failed(problem.kind, problem.sentence(self._settings.endpoint), promql)
        return Samples(question.answer, promql)

    def query_samples(self, promql: str, within: Grid, *, timeout: timedelta) -> RangeAnswer:
        """The samples of a range selector as they were scraped, asked at the end of `within`, a grid of milliseconds.

        Never raises. Ends as `query` does.
        """
        question = _Scraped(promql, within)
        try:
            self._ask_in_time(question, timeout)
        except Problem as problem:
            return Failed(problem.kind, problem.sentence(self._settings.endpoint), promql)
        return Tracks(question.answer, within, promql)

    def query_range(self, promql: str, grid: Grid, *, timeout: timedelta, at_once: bool = False) -> RangeAnswer:
        """At every step of `grid`. Never raises. Each request that it takes ends as that of `query` does.

        `at_once`: it takes one, or has no answer.
        """

        def ask(part: Grid) -> tuple[Track, ...]:
            question = _Range(promql, part)
            self._ask_in_time(question, timeout)
            return question.answer

        try:
            if at_once:
                return Tracks(ask(grid), grid, promql)
            found, longest = ranges.gather(grid, ask, self._longest.get(promql, ranges.LONGEST))
        except Problem as problem:
            return Failed(problem.kind, problem.sentence(f"{self._settings.endpoint}_range"), promql)
        if longest < ranges.LONGEST and len(self._longest) < _REMEMBERED:
            self._longest[promql] = longest  # the same query comes again for the next stretch
        return Tracks(found, grid, promql)

    def _ask_in_time(self, question: _Question, timeout: timedelta) -> None:
        """On a thread of its own: a name look-up has no timeout and cannot be interrupted, only left behind."""
        seconds = min(timeout, self._settings.timeout).total_seconds()
        exchange = question.exchange = Exchange(seconds, matrix=question.matrix)
        if exchange.remaining() <= 0:
            raise too_late(connected=False, limit=max(0.0, seconds))
        if not self._free.acquire(timeout=max(0.0, exchange.remaining())):
            raise Problem(
                FailureKind.TIMEOUT,
                f"was not asked within {seconds:.3g} s, since earlier queries are still waiting for it",
                "see what makes it slow",
            )
        self._start(question)
        if not exchange.finished.wait(max(0.0, exchange.remaining())):
            exchange.break_off()
        if exchange.broken_off:
            raise _stopping() if self._closed else too_late(connected=exchange.connected, limit=seconds)
        if question.problem is not None:
            raise question.problem

    def _start(self, question: _Question) -> None:
        with self._lock:
            self._running.add(question.exchange)
            closed = self._closed
        try:
            if not closed:
                Thread(target=self._run, args=(question,), name="prometheus-query", daemon=True).start()
        except RuntimeError as error:  # the system gives no more threads
            self._end(question.exchange)
            what = f"cannot be asked ({flat(str(error))})"
            raise Problem(FailureKind.MISCONFIGURED, what, "raise the limit of processes") from error
        if closed:
            self._end(question.exchange)
            raise _stopping()

    def _end(self, exchange: Exchange) -> None:
        with self._lock:
            self._running.discard(exchange)
        exchange.finish()
        self._free.release()

    def _run(self, question: _Question) -> None:
        CURRENT.set(question.exchange)  # of this thread only
        try:
            question.take(self._ask(question))
        except Problem as problem:
            question.problem = problem
        except Exception as error:  # noqa: BLE001  (the port never raises: a fault of ours is an unknown too)
            _log.exception("a query failed in an unforeseen way: %s", question.promql)
            what = f"was not understood ({type(error).__name__})"
            question.problem = Problem(FailureKind.GARBLED, what, "report it with the log's traceback")
        finally:
            self._end(question.exchange)

    def _ask(self, question: _Question) -> Any:
        try:
            return self._ask_once(question)
        except Problem as problem:
            # A kept connection may have been closed by the far side just now: that says nothing about Prometheus.
            exchange = question.exchange
            stale = problem.kind is FailureKind.UNREACHABLE and exchange.connected and not exchange.fresh
            if not stale or exchange.broken_off or exchange.remaining() <= 0:
                raise
        return self._ask_once(question)

    def _ask_once(self, question: _Question) -> Any:
        parameters = {
            "timeout": f"{_servers_share(question.exchange.remaining())}ms",
            **PARAMETERS[self._settings.flavour],
        }
        try:
            return question.put(self._client, parameters)
        except UnicodeError as error:  # half a surrogate pair, from a label
            raise Problem(FailureKind.REJECTED, "cannot be sent this query", "remove what is no Unicode") from error
        except PrometheusApiClientException as error:  # the session has seen to it that there is none
            raise Problem(FailureKind.GARBLED, "answered in an unforeseen way", "see its logs") from error
        except (requests.RequestException, urllib3.exceptions.HTTPError, OSError) as error:
            raise translate(error) from error


class _Question(ABC):
    """What one thread is asked, and what became of it."""

    exchange: Exchange
    matrix = True  # whether the answer is one, and no vector

    def __init__(self, promql: str) -> None:
        self.promql = promql
        self.problem: Problem | None = None

    @abstractmethod
    def put(self, client: PrometheusConnect, parameters: dict[str, str]) -> Any:
        """Ask. Returns the result as it was decoded."""

    @abstractmethod
    def take(self, result: Any) -> None:
        """Understand it. Raises Problem."""


class _Instant(_Question):
    """At one moment."""

    matrix = False

    def __init__(self, promql: str, at: datetime) -> None:
        super().__init__(promql)
        self.at = at
        self.answer: tuple[Sample, ...] = ()

    def put(self, client: PrometheusConnect, parameters: dict[str, str]) -> Any:
        return client.custom_query(self.promql, params={**parameters, "time": unix_seconds(self.at)})

    def take(self, result: Any) -> None:
        self.answer = samples(result, self.at)


class _Range(_Question):
    """At each step of a grid."""

    def __init__(self, promql: str, grid: Grid) -> None:
        super().__init__(promql)
        self.grid = grid
        self.answer: tuple[Track, ...] = ()

    def put(self, client: PrometheusConnect, parameters: dict[str, str]) -> Any:
        start, end = self.grid.start, self.grid.end
        step = f"{self.grid.step.total_seconds():.3f}"
        # The client rounds both ends to whole seconds; its caller's parameters come after its own.
        exactly = {**parameters, "start": unix_seconds(start), "end": unix_seconds(end)}
        return client.custom_query_range(self.promql, start, end, step, params=exactly)

    def take(self, result: Any) -> None:
        self.answer = ranges.tracks(result, self.grid)


class _Scraped(_Range):
    """At one moment, for the samples of the time before it."""

    def put(self, client: PrometheusConnect, parameters: dict[str, str]) -> Any:
        return client.custom_query(self.promql, params={**parameters, "time": unix_seconds(self.grid.end)})


def _servers_share(seconds: float) -> int:
    """Milliseconds: a little less than ours, so that the server's own word on the time-out arrives here."""
    return max(1, int((seconds - min(1.0, seconds / 10)) * 1000))


def _stopping() -> Problem:
    return Problem(FailureKind.UNREACHABLE, "is not asked any more", "the controller is stopping")


def _check_certificates(settings: PrometheusSettings) -> None:
    """Tell a mistyped path at the start and not at every query."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    try:
        if settings.ca_file:
            context.load_verify_locations(settings.ca_file)
    except OSError as error:
        raise UsageError(f"{settings.ca_file} cannot be used as prometheus.ca_file ({reason(error)}).") from error
    try:
        if settings.cert_file:  # without a password OpenSSL would ask the terminal for one
            context.load_cert_chain(settings.cert_file, settings.key_file, password=lambda: "")
    except OSError as error:
        files = " and ".join(str(f) for f in (settings.cert_file, settings.key_file) if f)
        raise UsageError(f"{files} cannot be used as the client certificate ({reason(error)}).") from error
