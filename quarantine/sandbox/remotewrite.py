"""A remote-write 1.0 client: history with simulated timestamps, stale markers included, into a real Prometheus.

The protobuf messages are small and the snappy block format allows literals only, so both are written by hand.
"""

from __future__ import annotations

import struct
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from urllib.parse import urlsplit, urlunsplit

import requests

from quarantine.core.errors import Refused, Unavailable

STALE_BITS = 0x7FF0000000000002  # Prometheus' stale marker is this NaN and no other
_STALE_BYTES = struct.pack("<Q", STALE_BITS)
STALE: float = struct.unpack("<d", _STALE_BYTES)[0]

_SLICE_MS = 30 * 60 * 1000
_BATCH = 100_000  # samples in one request: about 2 MB
_TIMEOUT_S = 60


@dataclass(frozen=True, slots=True)
class Series:
    """One series: labels with `__name__`, and samples in order of time (an aware datetime, or Unix milliseconds)."""

    labels: Mapping[str, str]
    samples: Sequence[tuple[datetime | int, float]]


def write(url: str, series: Iterable[Series], *, batch: int = _BATCH) -> int:
    """Send all samples to the Prometheus at `url` (its base URL); returns how many.

    They go in order of time, half an hour of every series after another, as a running remote write would: series by
    series, the second one would be older than what the head accepts. Raises Refused where Prometheus says no (the
    samples before are written), Unavailable where it does not answer.
    """
    endpoint = f"{url.rstrip('/')}/api/v1/write"
    sent = 0
    with requests.Session() as session:
        for body, count in _requests(series, batch):
            _post(session, endpoint, body)
            sent += count
    return sent


def _post(session: requests.Session, endpoint: str, body: bytes) -> None:
    headers = {
        "Content-Encoding": "snappy",
        "Content-Type": "application/x-protobuf",
        "X-Prometheus-Remote-Write-Version": "0.1.0",
        "User-Agent": "quarantine-sandbox",
    }
    try:
        answer = session.post(endpoint, data=body, headers=headers, timeout=_TIMEOUT_S)
    except requests.RequestException as error:
        # The exception's own text repeats the URL, with its password: only its kind is told.
        raise Unavailable(
            f"{masked(endpoint)} did not take the samples ({type(error).__name__}): is Prometheus running there?"
        ) from None
    if answer.status_code >= 500:
        raise Unavailable(f"{masked(endpoint)} answered {answer.status_code}: {answer.text.strip()[:500]}")
    if answer.status_code not in {200, 204}:
        hint = " (start it with --web.enable-remote-write-receiver)" if answer.status_code == 404 else ""
        raise Refused(f"{masked(endpoint)} answered {answer.status_code}: {answer.text.strip()[:500]}{hint}")


def masked(url: str) -> str:
    """`url` for people: without user and password."""
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2]
    return urlunsplit((parts.scheme, f"***@{host}" if "@" in parts.netloc else host, parts.path, "", ""))


# --- what is sent -----------------------------------------------------------------------------------------------------


def _requests(series: Iterable[Series], batch: int) -> Iterator[tuple[bytes, int]]:
    pending: list[bytes] = []
    count = 0
    for message, samples in _in_order(series):
        pending.append(message)
        count += samples
        if count >= batch:
            yield snappy(b"".join(pending)), count
            pending, count = [], 0
    if pending:
        yield snappy(b"".join(pending)), count


@dataclass(slots=True)
class _Cursor:
    """A series on its way: what of it was sent is before `at`."""

    labels: bytes
    times: list[int]
    values: list[float]
    at: int = 0


def _in_order(series: Iterable[Series]) -> Iterator[tuple[bytes, int]]:
    """TimeSeries messages, all series of one slice of time before the next slice."""
    known: dict[datetime | int, int] = {}  # many series share their times, and converting one is slow
    cursors = [
        _Cursor(_labels(s.labels), [_ms(at, known) for at, _ in s.samples], [value for _, value in s.samples])
        for s in series
        if s.samples
    ]
    while cursors:
        end = (min(c.times[c.at] for c in cursors) // _SLICE_MS + 1) * _SLICE_MS
        frames: dict[int, tuple[bytes, bytes]] = {}
        for c in cursors:
            start, c.at = c.at, bisect_left(c.times, end, lo=c.at)
            if c.at > start:
                samples = _samples(c.times[start : c.at], c.values[start : c.at], frames)
                yield _field(1, c.labels + samples), c.at - start
        cursors = [c for c in cursors if c.at < len(c.times)]


def _ms(at: datetime | int, known: dict[datetime | int, int]) -> int:
    if isinstance(at, int):
        return at
    ms = known.get(at)
    if ms is None:
        if at.tzinfo is None:
            raise ValueError(f"{at} has no time zone: give an aware datetime")
        ms = known[at] = round(at.timestamp() * 1000)
    return ms


def _labels(labels: Mapping[str, str]) -> bytes:
    """Label messages, sorted by name as the protocol wants; an empty value is the same as no label."""
    pairs = sorted((name, value) for name, value in labels.items() if value)
    return b"".join(_field(1, _field(1, name.encode()) + _field(2, value.encode())) for name, value in pairs)


def _samples(times: list[int], values: list[float], frames: dict[int, tuple[bytes, bytes]]) -> bytes:
    """Sample messages. `frames` remembers what stands before and after the value, by timestamp."""
    pack = struct.Struct("<d").pack
    out: list[bytes] = []
    for at, value in zip(times, values, strict=True):
        frame = frames.get(at)
        if frame is None:
            time = b"\x10" + varint(at)
            frame = frames[at] = (b"\x12" + varint(9 + len(time)) + b"\x09", time)
        # Not every processor keeps the bits of this NaN while it is a float, so it is known by identity.
        out += (frame[0], _STALE_BYTES if value is STALE else pack(value), frame[1])
    return b"".join(out)


def _field(number: int, payload: bytes) -> bytes:
    """A length-delimited protobuf field."""
    return bytes((number << 3 | 2,)) + varint(len(payload)) + payload


def varint(value: int) -> bytes:
    """A protobuf varint; a negative one is its 64-bit two's complement, as int64 has it."""
    value &= (1 << 64) - 1
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def snappy(data: bytes) -> bytes:
    """`data` as one snappy block: its length, then a single literal (legal, and not smaller)."""
    if not data:
        return b"\x00"
    return varint(len(data)) + b"\xfc" + struct.pack("<I", len(data) - 1) + data
