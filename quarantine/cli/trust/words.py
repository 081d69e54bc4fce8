"""Where a policy stands, in sentences, and what is to be done next; for people, Markdown and programs alike."""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from quarantine.cli.report.words import lasted
from quarantine.cli.trust.reading import Installation
from quarantine.core import pauses
from quarantine.core.case import Step as Remedy
from quarantine.core.fleet import Pool
from quarantine.core.model import Mode
from quarantine.core.policy import LoadedPolicy
from quarantine.core.record.milestones import Fate
from quarantine.core.record.trust import Standing, Step, Told, Wanted
from quarantine.core.record.trust.observed import Day
from quarantine.core.response import Moment
from quarantine.core.signs import in_utc

DAY = timedelta(days=1)
HISTORY = "-30d"  # what a backtest is tried on, unless Prometheus remembers less
UNSEEN = "how many of the machines it sees is not in the ledger: quarantine doctor tells what its signal covers now"
MOST_NAMED = 5  # cases whose commands are written out
_REMEDIES = {
    Remedy.RESET: "resets it",
    Remedy.REBOOT: "reboots it",
    Remedy.REPORT: "reports it to the provider",
    Remedy.REPLACE: "asks for another machine",
}


@dataclass(frozen=True, slots=True)
class Next:
    """Why a policy stands where it does, what is to be done, and the commands for it. Sentences without their ends."""

    why: str
    what: str
    commands: tuple[str, ...] = ()


def after(one: Standing, at: Installation, wanted: Wanted, paths: Sequence[Path]) -> Next:
    """`paths`: where the policies are, for the backtest."""
    match one.step:
        case Step.OBSERVE:
            return _observe(one)
        case Step.READ:
            return _judged_false(one, wanted) if one.sent_back else _read(one)
        case Step.BACKTEST:
            return _backtest(one, at, paths)
        case Step.ONE_POOL | Step.WIDEN:
            more = [pool for pool in one.seen_in if pool not in one.pools]
            into = f"to another pool in which it observed: {', '.join(more)}" if more else "to what it observed before"
            where = ", ".join(one.pools)
            why = f"it enforces in {where}, and nothing that it found was judged false"
            return Next(why, f"widen its nodeSelector {into}")
        case Step.FULL:
            return Next("it enforces wherever it has observed", "nothing is left to be done")


def _observe(one: Standing) -> Next:
    if one.since is None:
        why = "what it finds has never been observed in this cluster"
    else:
        why = f"it has observed for {observed_of(one)}, as it is since {in_utc(one.since)}"
    if not one.ahead:
        missing = one.wanted - one.observed
        left = counted(math.ceil(missing / DAY), "day") if one.wanted >= DAY else lasted(missing)
        if not one.found.waits:
            return Next(why, f"let it observe for {left} more")
        soon = f"read what it has found so far, and let it observe for {left} more"
        return Next(why, soon, looks(one.found.waiting))
    name = shlex.quote(f"policy/{one.policy.name}")
    return Next(
        f"{why}, and it enforces already", "write mode: observe, or pause it", (f"quarantine pause {name} --reason …",)
    )


def _judged_false(one: Standing, wanted: Wanted) -> Next:
    newest = one.found.refuted[0]
    why = judged_false(one)
    if one.found.waits:
        why += f", and {counted(one.found.waits, 'more waits', 'more wait')} for people's word"
    what = "change what it finds, and it observes anew"
    if one.ahead:
        what = f"pause it, or write mode: observe; {what}"
    passes = (newest.judged or wanted.now) + wanted.length
    return Next(why, f"{what}; else it stands here until {in_utc(passes)}", looks(one.found.refuted))


def judged_false(one: Standing) -> str:
    """What was, as a sentence; there is something."""
    count, newest = one.found.of(Fate.REFUTED), one.found.refuted[0]
    last = f"{newest.node} on {newest.judged or newest.at:%Y-%m-%d}"
    if count == 1:
        return f"one of its findings was judged false, of {last}"
    return f"{count:,} of its findings were judged false, the last of {last}"


def _read(one: Standing) -> Next:
    waits = one.found.waits
    why = f"{counted(waits, 'finding')} of it wait{'s' if waits == 1 else ''} for people's word"
    what = "look at each, and say of it: quarantine open NODE (it has to go), or quarantine release NODE (it is sound)"
    return Next(why, what, looks(one.found.waiting))


def nothing_against(one: Standing) -> str:
    """That it observed, and what came of it."""
    seen = f"it has observed for {f'{days(one.observed)} days' if one.observed >= 2 * DAY else lasted(one.observed)}"
    # Not that it found nothing: a case that another policy had opened is that one's, though this one joined it.
    what = "nothing that it found was judged false" if one.found.cases else "no case was opened for it"
    window = counted(one.wanted // DAY, "day") if one.wanted >= DAY else lasted(one.wanted)
    return f"{seen}, and {what} in the last {window}"


def _backtest(one: Standing, at: Installation, paths: Sequence[Path]) -> Next:
    files = " ".join(shlex.quote(str(path)) for path in paths)
    command = f"quarantine policy backtest {files} --policy {shlex.quote(one.policy.name)} --start {HISTORY}"
    pool = _smallest(one, at)
    where = "" if pool is None else f" and nodeSelector: {_selector(pool, one)}"
    there = "" if pool is None else f", so that it acts in pool {pool.name} alone"
    return Next(
        nothing_against(one),
        f"try it on history; then write mode: enforce{where}{there}",
        (command,),
    )


def _smallest(one: Standing, at: Installation) -> Pool | None:
    """The pool to begin with; None where there is no choice."""
    sizes = at.state.pools
    met = [pool for pool in at.rules.fleet.pools if pool.name in one.pools]
    known = {pool.name: pool.size or (sizes[pool.name].nodes if pool.name in sizes else 0) for pool in met}
    return min(met, key=lambda pool: (not known[pool.name], known[pool.name])) if len(met) > 1 else None


def _selector(pool: Pool, one: Standing) -> str:
    labels = {**one.policy.spec.node_selector, **pool.node_selector}
    return "{" + ", ".join(f"{label}: {value}" for label, value in labels.items()) + "}"


def looks(told: Sequence[Told]) -> tuple[str, ...]:
    """The commands that show these cases."""
    return tuple(f"quarantine explain {shlex.quote(t.node)} --case {shlex.quote(t.case)}" for t in told[:MOST_NAMED])


# --- What is worth knowing besides ------------------------------------------------------------------------------------


def notes(one: Standing, at: Installation, wanted: Wanted) -> Iterator[str]:
    """Sentences, without their ends."""
    if one.step is Step.OBSERVE and one.found.refuted:
        yield judged_false(one)
    if one.blind >= timedelta(minutes=1):
        yield f"for {lasted(one.blind)} more it had no answer, or none that covered anything"
    if one.unproven >= timedelta(minutes=1):
        yield f"for {lasted(one.unproven)} more nothing shows that a controller was at work, so that is not counted"
    if one.tripped:
        yield f"its breaker held it {counted(one.tripped, 'time')}: it found so much at once that it was the suspect"
    if one.overflow is not None and one.overflow.exceeds:
        sweep = one.overflow.sweep
        yield (
            f"at {in_utc(sweep.at)} it found {sweep.machines:,} machines of pool {sweep.pool or 'none'} in one cycle, "
            f"and the pool's budget lets out {one.overflow.allowed:,} within an hour: the others would have waited"
        )
    nothing = not one.found.cases and not one.found.waits and not one.found.refuted
    if nothing and one.since is not None:
        yield "where no case was opened, only tests and a backtest show what would be"
    elif one.step.rank >= Step.BACKTEST.rank and not one.judged:
        yield "nobody has judged anything that it found, so how often it is right is not known"
    if one.step is Step.BACKTEST:
        yield UNSEEN
    changed = at.signal_files.get(one.policy.measures)
    if changed is not None and one.since is not None and changed > max(one.since, wanted.since):
        yield f"the file of signal {one.policy.measures} was changed at {in_utc(changed)}; what was before counts too"
    if one.enforces:
        yield from _acts(one, at, wanted.now)


def _acts(one: Standing, at: Installation, now: datetime) -> Iterator[str]:
    if at.mode is Mode.OBSERVE:
        yield "these settings say mode observe, so the installation acts on nothing: apply k8s/overlays/enforce"
    said = [pauses.pause(at.state.words, now, policy=one.policy.name)]
    said += [pauses.pause(at.state.words, now, pool=pool) for pool in one.pools]
    yield from (pauses.told(word) for word in {word.key: word for word in said if word is not None}.values())


def response(policy: LoadedPolicy) -> str:
    """What it does about a machine when it acts."""
    said = policy.spec.response
    if not said.taint:
        return "shows what it finds, and takes no machine out"
    parts = ["marks the machine"]
    if said.drain.when is not Moment.NEVER:
        parts.append(f"drains it ({said.drain.when})")
    parts += [_REMEDIES[step.do] for step in said.steps]
    return ", ".join(parts)


def right(one: Standing) -> str:
    """How many of those that were judged were right, with the interval; empty where none was."""
    if not one.judged:
        return ""
    low, high = one.right
    return f"{one.found.of(Fate.CONFIRMED):,} of {one.judged:,} ({100 * low:.0f}–{100 * high:.0f} %)"


def observed_of(one: Standing) -> str:
    """Of the time that it is to observe, how much it has: in days, where that is a day or more."""
    if one.wanted < DAY:
        return f"{lasted(one.observed)} of {lasted(one.wanted)}"
    return f"{days(one.observed)} of {counted(one.wanted // DAY, 'day')}"


def share(one: Standing) -> str:
    """The same, as short as a cell; no more than is wanted."""
    seen = min(one.observed, one.wanted)
    return f"{lasted(seen)}/{lasted(one.wanted)}" if one.wanted < DAY else f"{days(seen)}/{days(one.wanted)} d"


def days(length: timedelta) -> str:
    """Whole days, and no more than there were."""
    return f"{length // DAY:,}"


def counted(number: int, what: str, several: str = "") -> str:
    """A number of things."""
    return f"{number:,} {what if number == 1 else several or f'{what}s'}"


def headline(at: Installation, wanted: Wanted) -> str:
    """Of whom this is told, and of what time. A sentence with its end."""
    span = f"{wanted.since:%Y-%m-%d %H:%M} to {wanted.now:%Y-%m-%d %H:%M} UTC"
    return f"{span}, {at.cluster}: {counted(len(at.rules.policies), 'policy', 'policies')} in force."


_SIGNS = {Day.NONE: "·", Day.BLIND: "░", Day.QUIET: "▁", Day.FOUND: "█", Day.REFUTED: "✗"}
LEGEND = "▁ observed, █ found something, ✗ that was judged false, ░ blind, · not observed"
_WEIGHT = (Day.REFUTED, Day.FOUND, Day.BLIND, Day.QUIET, Day.NONE)
LONGEST_BAR = 30  # signs


def bar(one: Standing) -> str:
    """The window, a sign for a day; for several days where it is long, and then the worst of them."""
    wanted = max(1, math.ceil(one.wanted / DAY))
    told = [*one.days, *[Day.NONE] * (wanted - len(one.days))]
    each = math.ceil(len(told) / LONGEST_BAR)
    parts = (told[n : n + each] for n in range(0, len(told), each))
    return "".join(_SIGNS[min(part, key=_WEIGHT.index)] for part in parts)
