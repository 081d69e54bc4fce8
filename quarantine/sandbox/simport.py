"""One simulated InfiniBand port (NDR, 400 Gb/s) as functions of time: see `simgpu` for why."""

from __future__ import annotations

from dataclasses import dataclass
from math import floor, pi, sin
from typing import Literal

from quarantine.sandbox.dice import Dice

_RATE = 5e10  # bytes per second
_RATE_DOWN = 1.25e9  # what the kernel shows for a port without a link: 4X SDR
_PACKET = 4178  # bytes: a 4 KiB payload with its headers
_WIDTH = {"link_downed": 0xFF, "link_error_recovery": 0xFF, "symbol_error": 0xFFFF}  # the hardware stops counting there


@dataclass(frozen=True, slots=True)
class Flap:
    """Down for `down_s` at the start of every `period_s` since `since`."""

    since: float
    period_s: float
    down_s: float
    symbol_per_s: float

    def _phase(self, t: float) -> tuple[int, float]:
        elapsed = max(0.0, t - self.since)
        whole = floor(elapsed / self.period_s)
        return whole, elapsed - whole * self.period_s

    def is_down(self, t: float) -> bool:
        """Whether the link is down now."""
        return self._phase(t)[1] < self.down_s

    def downs(self, t: float) -> int:
        """How often it has gone down."""
        return self._phase(t)[0] + 1

    def recoveries(self, t: float) -> int:
        """How often it has come back."""
        whole, phase = self._phase(t)
        return whole + (phase >= self.down_s)

    def up_s(self, t: float) -> float:
        """For how long it has been up."""
        whole, phase = self._phase(t)
        return whole * (self.period_s - self.down_s) + max(0.0, phase - self.down_s)


class SimPort:
    """A port of an HCA. `never_up` is the physical state of one that has no cable."""

    def __init__(self, dice: Dice, device: str, *, uptime_s: float, never_up: Literal[2, 3] | None = None) -> None:
        self.device, self.port = device, "1"
        self._never_up = never_up
        self._activity = 0.0
        self._flaps: dict[object, Flap] = {}
        self._wave = 2 * pi / dice.uniform("period", 8, 20)
        self._phase = dice.uniform("phase", 0, 2 * pi)
        used = never_up is None
        self._bytes, self._bytes_since = (uptime_s * 9e9 if used else 0.0), 0.0
        self._wait_ticks = dice.uniform("wait", 2e6, 9e6) if used else 0.0
        self._counts = {
            "symbol_error": dice.integer("symbols", 0, 12) if used else 0,
            "link_downed": dice.integer("downed", 0, 2) if used else 0,
            "link_error_recovery": dice.integer("recovered", 0, 2) if used else 0,
        }
        self.discards = dice.integer("discards", 0, 40) if used else 0

    @property
    def name(self) -> str:
        """As the controller names it."""
        return f"{self.device}/{self.port}"

    def set_activity(self, t: float, activity: float) -> None:
        """Traffic comes or goes."""
        self._fold_bytes(t)
        self._activity = activity

    def flap(self, t: float, key: object, flap: Flap) -> None:
        """Flap from now on."""
        self._fold_bytes(t)
        self._flaps[key] = flap

    def steady(self, t: float, key: object) -> None:
        """Flap no more; what was counted stays counted."""
        self._fold_bytes(t)
        flap = self._flaps.pop(key, None)
        if flap is not None:
            for counter, more in self._flapped(flap, t).items():
                self._counts[counter] += more

    def reset_counters(self, t: float) -> None:
        """A driver reload: counters begin at zero, and flaps are counted from now."""
        self._bytes, self._bytes_since = 0.0, t
        self._wait_ticks = 0.0
        self.discards = 0
        self._counts = {
            counter: -sum(self._flapped(flap, t)[counter] for flap in self._flaps.values()) for counter in self._counts
        }

    def state(self, t: float) -> tuple[int, int, float]:
        """State, physical state, and rate in bytes per second."""
        if self._never_up is not None:
            return 1, self._never_up, _RATE_DOWN
        if any(flap.is_down(t) for flap in self._flaps.values()):
            return 1, 2, _RATE_DOWN
        return 4, 5, _RATE

    def count(self, counter: str, t: float) -> int:
        """`symbol_error`, `link_downed` or `link_error_recovery`, saturated at its width."""
        value = self._counts[counter] + sum(self._flapped(flap, t)[counter] for flap in self._flaps.values())
        return min(value, _WIDTH[counter])

    @staticmethod
    def _flapped(flap: Flap, t: float) -> dict[str, int]:
        return {
            "symbol_error": int(flap.symbol_per_s * flap.up_s(t)),
            "link_downed": flap.downs(t),
            "link_error_recovery": flap.recoveries(t),
        }

    def traffic(self, t: float) -> tuple[int, int, int]:
        """Bytes and packets in one direction, and ticks of waiting."""
        moved = int(self._moved(t)) & ~3  # the hardware counts words of four bytes
        return moved, moved // _PACKET, int(self._wait_ticks + moved * 1e-5)

    def _moved(self, t: float) -> float:
        return self._bytes + self._activity * 2.2e10 * (self._clock(t) - self._clock(self._bytes_since))

    def _clock(self, t: float) -> float:
        """Seconds of transfer: the link's time up, in waves that never run backwards."""
        if self._never_up is not None:
            return 0.0
        up = t
        for flap in self._flaps.values():
            up -= max(0.0, t - flap.since) - flap.up_s(t)
        return up + 0.6 / self._wave * sin(self._wave * up + self._phase)

    def _fold_bytes(self, t: float) -> None:
        self._bytes, self._bytes_since = self._moved(t), t
