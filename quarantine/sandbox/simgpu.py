"""The physics of one simulated GPU: an H100-like card whose temperature follows its power, as functions of time.

Between two changes everything is a closed form of time, so that what a scrape reads does not depend on when the last
scrape was, and reading costs the same however long ago that is. Times are seconds since the fleet began.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import cos, exp, pi, sin

from quarantine.sandbox.dice import Dice

DRIVER = "570.172.08"
MODEL = "NVIDIA H100 80GB HBM3"
MEMORY_MIB = 81559
_RESERVED_MIB = 597
_BUS = ("18", "2A", "3A", "5D", "9A", "AB", "BA", "DB")
_COOLING_S = 12.0  # how fast a difference in temperature goes away after a change
_THROTTLE_C = 80.0


class Ramp:
    """A counter that grows at a rate which may change."""

    def __init__(self, value: float = 0.0, rate: float = 0.0) -> None:
        self._value, self._rate, self._since = value, rate, 0.0

    def at(self, t: float) -> float:
        """Its value."""
        return self._value + self._rate * (t - self._since)

    def set_rate(self, t: float, rate: float) -> None:
        """Grow at another rate from now on."""
        self._value, self._rate, self._since = self.at(t), rate, t

    def reset(self, t: float) -> None:
        """Begin again at zero, at the same rate."""
        self._value, self._since = 0.0, t


@dataclass(frozen=True, slots=True)
class Heat:
    """Bad cooling: under load the GPU settles at `to` °C, `rise_s` after `since`."""

    to: float
    since: float
    rise_s: float

    def progress(self, t: float) -> float:
        """0 before, 1 when it has risen."""
        return 1.0 if self.rise_s <= 0 else min(1.0, max(0.0, (t - self.since) / self.rise_s))


class SimGpu:
    """One GPU. `activity` is 0 when idle and 1 in training."""

    def __init__(self, dice: Dice, index: int, *, inlet: float, uptime_s: float) -> None:
        """`inlet` is the temperature of the air that reaches the node, in °C."""
        self.index = index
        self.uuid = f"GPU-{dice.uuid('uuid')}"
        self.pci_bus_id = f"00000000:{_BUS[index % len(_BUS)]}:00.0"
        self.heats: dict[object, Heat] = {}
        self._idle_w = dice.uniform("idle", 68, 78)
        self._span_w = dice.uniform("span", 500, 560)
        self._idle_c = inlet + dice.uniform("idle-temperature", 4, 8)
        self._rise = dice.uniform("rise", 30, 35) / self._span_w  # °C per watt
        self._waves = tuple(
            (dice.uniform(f"amplitude{n}", low / 2, low), 2 * pi / dice.uniform(f"period{n}", period, 2 * period),
             dice.uniform(f"phase{n}", 0, 2 * pi))
            for n, (low, period) in enumerate(((14.0, 45.0), (8.0, 9.0)))
        )  # fmt: skip
        self._salt = dice.integer("salt", 0, 1 << 31)
        self._used_mib = dice.integer("memory", 70_500, 74_800)
        self._activity = 0.0
        self._residue, self._residue_at = 0.0, 0.0
        self._energy_base, self._energy_since = uptime_s * 430.0, 0.0
        self.remapped_correctable = dice.integer("remapped", 0, 40) // 37
        self.pcie_replays = dice.integer("pcie", 0, 30) // 28
        self.nvlink_replay = Ramp(dice.integer("replay", 0, 3))
        self.nvlink_crc_flit = Ramp(dice.integer("crc", 0, 5))
        self.nvlink_crc_data = Ramp()
        self.nvlink_recovery = Ramp()
        self.nvlink_bandwidth = Ramp(uptime_s * 90_000.0)

    # --- power and temperature ------------------------------------------------------------------------------------

    def power(self, t: float) -> float:
        """Watts."""
        return self._idle_w + self._activity * (self._span_w + sum(a * sin(w * t + p) for a, w, p in self._waves))

    def _work(self, t: float) -> float:
        """The antiderivative of `power`: joules."""
        waves = sum(-a / w * cos(w * t + p) for a, w, p in self._waves)
        return self._idle_w * t + self._activity * (self._span_w * t + waves)

    def energy_mj(self, t: float) -> int:
        """Millijoules since boot."""
        return int(1000 * (self._energy_base + self._work(t) - self._work(self._energy_since)))

    def _settled(self, t: float) -> float:
        """The temperature that the present power and cooling lead to."""
        rise = self._rise
        for heat in self.heats.values():
            bad = (heat.to - self._idle_c) / (self._span_w * (self._activity or 1.0))
            rise = max(rise, self._rise + (bad - self._rise) * heat.progress(t))
        return self._idle_c + rise * (self.power(t) - self._idle_w)

    def temperature(self, t: float) -> float:
        """°C, without the sensor's noise."""
        return self._settled(t) + self._residue * exp(-(t - self._residue_at) / _COOLING_S)

    def _noise(self, t: float) -> float:
        """From -0.5 to 0.5, another one every second."""
        mixed = (int(t) * 0x9E3779B1 + self._salt) & 0xFFFFFFFF
        mixed = (mixed ^ (mixed >> 15)) * 0x85EBCA6B & 0xFFFFFFFF
        return ((mixed ^ (mixed >> 13)) & 0xFFFF) / 0xFFFF - 0.5

    # --- changes ----------------------------------------------------------------------------------------------------

    def set_activity(self, t: float, activity: float) -> None:
        """Load comes or goes: power follows at once, temperature within half a minute."""
        before = self.temperature(t)
        self._energy_base += self._work(t) - self._work(self._energy_since)
        self._energy_since = t
        self._activity = activity
        self.nvlink_bandwidth.set_rate(t, 140_000.0 * activity)
        self._settle(t, before)

    def heat(self, t: float, key: object, heat: Heat) -> None:
        """Cool badly from now on."""
        before = self.temperature(t)
        self.heats[key] = heat
        if heat.rise_s > 0:
            self._settle(t, before)

    def cool(self, t: float, key: object) -> None:
        """Cool well again: the GPU is back at its own temperature within half a minute."""
        before = self.temperature(t)
        self.heats.pop(key, None)
        self._settle(t, before)

    def _settle(self, t: float, before: float) -> None:
        """Whatever changed, the temperature does not jump."""
        self._residue, self._residue_at = before - self._settled(t), t

    def reset_counters(self, t: float) -> None:
        """A driver reload."""
        self._energy_base, self._energy_since = 0.0, t
        self.pcie_replays = 0
        for ramp in (self.nvlink_replay, self.nvlink_crc_flit, self.nvlink_crc_data, self.nvlink_recovery):
            ramp.reset(t)
        self.nvlink_bandwidth.reset(t)

    # --- what DCGM reads ----------------------------------------------------------------------------------------------

    def readings(self, t: float) -> tuple[str, ...]:
        """Values as dcgm-exporter prints them, in the order of `exporters.dcgm.FIELDS`."""
        load, noise = self._activity, self._noise(t)
        celsius = self.temperature(t) + noise
        used = self._used_mib if load else 0
        throttled = max(0.0, celsius - _THROTTLE_C) * 45 if load else 0.0
        clock = int((1935 - 60 * load - throttled + 30 * noise) // 15 * 15) if load else 345
        return (
            str(clock),
            "2619" if load else "1593",
            str(round(celsius + 3 + 6 * load)),
            str(round(celsius)),
            f"{self.power(t) + 6 * noise:f}",
            str(self.energy_mj(t)),
            str(self.pcie_replays),
            str(min(100, round(100 * load**0.5 + noise)) if load else 0),
            str(round(52 * load + 6 * noise) if load else 0),
            "0",
            "0",
            str(MEMORY_MIB - _RESERVED_MIB - used),
            str(used),
            str(_RESERVED_MIB),
            str(int(self.nvlink_crc_flit.at(t))),
            str(int(self.nvlink_crc_data.at(t))),
            str(int(self.nvlink_replay.at(t))),
            str(int(self.nvlink_recovery.at(t))),
            str(int(self.nvlink_bandwidth.at(t))),
            "0",
            "0",
            str(self.remapped_correctable),
            "0",
            f"{min(1.0, 0.97 * load + 0.02 * noise) if load else 0.0:f}",
            f"{(0.44 + 0.12 * noise) * load:f}",
            f"{(0.47 + 0.10 * noise) * load:f}",
        )
