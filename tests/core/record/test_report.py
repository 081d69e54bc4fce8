"""What a report counts, and what it does not: each rule of docs/report.md, and every sum against a plain count."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from statistics import median
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quarantine.core.case import HeldBy, Phase
from quarantine.core.draft import NODE
from quarantine.core.model import Severity
from quarantine.core.record.milestones import Fate, Milestones
from quarantine.core.record.report import Material, Report, Wanted, report
from quarantine.core.record.report.causes import GATE, PERSON, POLICY, UNTOLD
from quarantine.core.record.report.times import STEPS
from tests.core.record.lives import out_hours
from tests.core.record.reports import (
    DAY,
    HOUR,
    MINUTE,
    SINCE,
    UNTIL,
    WANTED,
    at,
    case,
    counted,
    hold,
    lasts,
    made,
    out,
    part,
    size,
    within,
)

MS = timedelta(milliseconds=1)

# --- Nothing, and the edges -------------------------------------------------------------------------------------------


def test_nothing_at_all_is_a_report_too() -> None:
    found = made()
    assert found.empty
    assert (found.cases, found.causes, found.pools, found.failures, found.jobs, found.worst) == (0, (), (), (), (), ())
    assert set(found.times) == set(STEPS)
    assert not any(found.times.values())


def test_no_cluster_is_no_trouble() -> None:
    assert report(Material(SINCE, UNTIL, ()), WANTED).empty


def test_a_quiet_fleet_has_a_rate_with_an_upper_end_only() -> None:
    found = made(sizes=[size(100)])
    (rate,) = found.failures
    assert (rate.failures, rate.rate, rate.low) == (0, 0.0, 0.0)
    assert rate.node_days == 3000
    assert rate.high == pytest.approx(3.6889 / 3, abs=1e-4)
    (job,) = found.jobs
    assert (job.mean, job.at_most, job.young, job.daly) == (None, None, None, None)
    assert job.at_least > timedelta(0)


def test_no_time_is_refused() -> None:
    with pytest.raises(ValueError, match="no time"):
        made(since=SINCE, until=SINCE)


def test_the_window_has_its_beginning_and_not_its_end() -> None:
    found = made([out(1, SINCE), out(2, UNTIL), out(3, UNTIL - MS), out(4, SINCE - MS)])
    (cause,) = found.causes
    assert cause.opened == 2  # 1 and 3
    assert cause.out == 2  # 1 and 4: 3 was taken out a minute later, and 2 is of another report
    assert found.cases == 3


def test_what_ended_before_is_not_told() -> None:
    over = out(1, SINCE - 2 * DAY, back_at=SINCE - DAY, ended_at=SINCE - DAY, phase=Phase.RELEASED)
    assert made([over]).empty


def test_what_came_later_had_not_happened() -> None:
    later = out(1, UNTIL - DAY, ticket_at=UNTIL, asked_at=UNTIL - HOUR, swapped_at=UNTIL + HOUR, back_at=UNTIL + DAY)
    found = made([later], sizes=[size(10)])
    assert found.times["out_to_ticket"] is found.times["asked_to_swapped"] is found.times["out_to_back"] is None
    assert found.pools[0].still_out == 1
    assert found.provider_scores[0].waiting == 1
    assert found.provider_scores[0].waiting_longest == HOUR


# --- Causes and policies ----------------------------------------------------------------------------------------------


def test_every_case_has_one_cause() -> None:
    none: dict[str, Any] = {"policy": "", "signal": "", "severity": None}
    found = made(
        [
            out(1),
            out(2, severity=Severity.FATAL),
            case(3),
            out(4, by_person=True, **none),
            out(5, gate=True, **none),
            out(6, **none),
            out(7, by_person=True),  # a person opened it, and a policy joined
        ]
    )
    by = {(cause.by, cause.policy): (cause.opened, cause.out, dict(cause.severities)) for cause in found.causes}
    assert by == {
        (POLICY, "gpu-hot"): (3, 2, {"critical": 1, "fatal": 1}),
        (PERSON, ""): (1, 1, {}),
        (GATE, ""): (1, 1, {}),
        (UNTOLD, ""): (1, 1, {}),
        (PERSON, "gpu-hot"): (1, 1, {"critical": 1}),
    }
    assert found.causes[0].policy == "gpu-hot", "the most first"


def test_policies_are_judged_by_what_was_put_to_somebody() -> None:
    ended: dict[str, Any] = {"phase": Phase.DISMISSED, "ended_at": SINCE + 2 * DAY}
    found = made(
        [
            out(1, fate=Fate.CONFIRMED),
            out(2, fate=Fate.REFUTED, **ended),
            out(3, fate=Fate.RETURNED),
            case(4),
            case(5, **ended),  # a suspicion that went by itself
            case(8, fate=Fate.REFUTED, **ended),  # and one that a person said no to, before anything was marked
            out(6, fate=Fate.CONFIRMED, by_person=True),
            out(7, SINCE - DAY, fate=Fate.CONFIRMED),  # of the report before
        ]
    )
    (score,) = found.policies
    assert (score.confirmed, score.refuted, score.returned, score.open) == (1, 2, 1, 1)
    assert score.precision == 1 / 3
    assert made([case(1)]).policies[0].precision is None


# --- Times ------------------------------------------------------------------------------------------------------------


def test_times_are_of_what_ended_in_the_window() -> None:
    began_before = out(1, SINCE - DAY, back_at=SINCE + HOUR, ended_at=SINCE + HOUR)
    found = made([began_before, out(2, back_at=SINCE + 2 * DAY, ended_at=SINCE + 2 * DAY)])
    taken_out, back = found.times["found_to_out"], found.times["out_to_back"]
    assert taken_out is not None
    assert (taken_out.count, taken_out.median) == (1, 6 * MINUTE)
    assert back is not None
    assert (back.count, back.least, back.most) == (2, DAY - MINUTE, DAY + HOUR - MINUTE)


def test_the_ninetieth_percentile_lies_between_its_neighbours() -> None:
    found = made([out(n, marked_at=SINCE + DAY + MINUTE + n * MINUTE) for n in range(1, 11)])
    spread = found.times["out_to_marked"]
    assert spread is not None
    assert (spread.least, spread.median, spread.most) == (MINUTE, 5.5 * MINUTE, 10 * MINUTE)
    assert spread.p90 == 9.1 * MINUTE


def test_a_person_finds_at_once_which_says_nothing() -> None:
    assert made([out(1, by_person=True)]).times["found_to_out"] is None
    assert made([out(1, policy="")]).times["found_to_out"] is None


def test_what_ends_before_it_begins_is_no_time() -> None:
    assert made([out(1, ticket_at=SINCE + DAY)]).times["out_to_ticket"] is None


# --- Out of service ---------------------------------------------------------------------------------------------------


def test_machine_hours_are_those_in_the_window() -> None:
    found = made(
        [
            out(1, SINCE - DAY, back_at=SINCE + 2 * HOUR, ended_at=SINCE + 2 * HOUR),
            out(2, UNTIL - 3 * HOUR, marked_at=UNTIL - 2 * HOUR),
            out(3, pool="a100", provider="", marked_at=SINCE + DAY, back_at=SINCE + DAY + 5 * HOUR),
            out(4, marked_at=None),
        ],
        sizes=[size(10)],
    )
    (a100, h100) = found.pools
    assert (a100.pool, a100.hours, a100.share, a100.gpu_hours) == ("a100", 5.0, None, None)
    assert (h100.outages, h100.still_out, h100.hours, h100.hours_of_pool) == (2, 1, 4.0, 7200.0)
    assert h100.share == 4 / 7200
    assert h100.gpu_hours == 32.0
    assert [(p.provider, p.hours) for p in found.providers] == [("", 5.0), ("acme", 4.0)]


def test_a_share_is_of_the_time_in_which_the_size_is_known() -> None:
    always_out = out(1, SINCE - DAY)
    found = made([always_out], sizes=[size(10, SINCE + 10 * DAY), size(20, SINCE + 20 * DAY)])
    (pool,) = found.pools
    assert pool.hours == 720.0
    assert pool.hours_of_pool == 24 * (10 * 10 + 20 * 10)
    assert pool.share == 480 / 7200


def test_a_pool_without_machines_has_no_share() -> None:
    found = made([out(1)], sizes=[size(0)])
    assert found.pools[0].share is None
    assert found.failures[0].rate is None
    assert found.failures[0].uncounted == 1


def test_gpus_that_are_not_told_are_not_invented() -> None:
    found = made([out(1)], sizes=[size(10, gpus=0)])
    assert found.pools[0].gpu_hours is None
    assert found.failures[0].gpus_per_node is None
    assert found.jobs == ()


# --- Failures and jobs ------------------------------------------------------------------------------------------------


def test_a_failure_was_taken_out_or_confirmed_and_not_dismissed() -> None:
    found = made(
        [
            out(1),
            case(2, fate=Fate.CONFIRMED),
            case(3),
            out(4, phase=Phase.DISMISSED, fate=Fate.REFUTED, ended_at=SINCE + 2 * DAY),
            out(5, gate=True, policy=""),
            out(6, gate=True),  # found while it was new
            out(7, fate=Fate.REFUTED, phase=Phase.RELEASED),  # by the provider, later
            out(8, fate=Fate.CONFIRMED),
        ],
        sizes=[size(100)],
    )
    (rate,) = found.failures
    assert (rate.failures, rate.confirmed, rate.uncounted) == (4, 2, 0)
    assert rate.rate == pytest.approx(4 / 3000 * 1000)


def test_failures_before_a_pool_was_counted_are_in_no_rate() -> None:
    found = made([out(1, SINCE + DAY), out(2, SINCE + 20 * DAY)], sizes=[size(100, SINCE + 10 * DAY)])
    (rate,) = found.failures
    assert (rate.failures, rate.uncounted, rate.node_days) == (1, 1, 2000)


def test_pools_together_are_a_row_of_their_own() -> None:
    found = made([out(1), out(2, pool="a100")], sizes=[size(100), size(50, pool="a100")])
    assert found.all_failures is not None
    assert (found.all_failures.failures, found.all_failures.node_days) == (2, 4500)
    assert made([out(1)], sizes=[size(100)]).all_failures is None


def test_a_job_is_as_good_as_its_pool() -> None:
    wanted = Wanted(gpus=(100, 1024), checkpoint=10 * MINUTE)
    found = made([out(n) for n in range(1, 31)], sizes=[size(1000)], wanted=wanted)
    small, large = found.jobs
    assert (small.nodes, large.nodes) == (13, 128)
    assert large.mean == pytest.approx(DAY / (128 * 0.001), abs=timedelta(seconds=1))
    assert large.at_most is not None
    assert large.at_least < large.mean < large.at_most
    assert large.young is not None
    assert large.daly is not None
    assert large.young > large.daly > timedelta(0)


# --- Providers --------------------------------------------------------------------------------------------------------


def test_a_provider_owes_from_the_asking_to_the_arrival() -> None:
    asked = SINCE + 2 * DAY
    swapped: dict[str, Any] = {"ticket_at": asked, "asked_at": asked, "fate": Fate.CONFIRMED}
    found = made(
        [
            out(1, **swapped, acknowledged_at=asked + HOUR, swapped_at=asked + 10 * HOUR, same_returned=True),
            out(2, **swapped, swapped_at=asked + 30 * HOUR),
            out(3, ticket_at=asked, fate=Fate.REFUTED),
            out(4, asked_at=UNTIL - HOUR),
            out(5, SINCE - 9 * DAY, asked_at=SINCE - 8 * DAY, swapped_at=SINCE + HOUR),
            out(6, asked_at=asked, back_at=asked + HOUR, ended_at=asked + HOUR, phase=Phase.RELEASED),
            out(7),
        ]
    )
    (acme,) = found.provider_scores
    assert (acme.told, acme.asked) == (3, 4)
    assert acme.acknowledged is not None
    assert (acme.acknowledged.count, acme.acknowledged.median) == (1, HOUR)
    assert acme.replaced is not None
    assert (acme.replaced.count, acme.replaced.least) == (3, 10 * HOUR)
    assert (acme.waiting, acme.waiting_longest) == (1, HOUR)
    assert (acme.confirmed, acme.refuted, acme.unsaid, acme.same_returned) == (2, 1, 2, 1)
    assert acme.hours_owed == 10 + 30 + 1 + 1 + 1


def test_a_provider_that_was_never_asked_has_no_score() -> None:
    assert made([out(1)]).provider_scores == ()


# --- Machines ---------------------------------------------------------------------------------------------------------


def test_the_worst_machine_comes_first_and_refuted_cases_count_nothing() -> None:
    one: dict[str, Any] = {"machine": "system-uuid:lemon"}
    found = made(
        [
            out(1, **one, ticket_at=SINCE + 2 * DAY, back_at=SINCE + 3 * DAY, ended_at=SINCE + 3 * DAY),
            out(2, SINCE + 9 * DAY, **one, node="node-9", back_at=SINCE + 10 * DAY, ended_at=SINCE + 10 * DAY),
            out(3, fate=Fate.REFUTED),
            case(4, machine=""),
        ]
    )
    assert [m.score for m in found.worst] == [5, 1]
    lemon, unknown = found.worst
    assert (lemon.machine, lemon.nodes) == ("system-uuid:lemon", ("node-9", "node-1"))
    assert (lemon.opened, lemon.out, lemon.told) == (2, 2, 1)
    assert lemon.hours_out == pytest.approx(72 - 140 / 3600)
    assert (unknown.machine, unknown.nodes) == ("", ("node-4",))
    assert found.machines == 3
    assert made([out(1), out(2)], wanted=Wanted(worst=1)).worst[0].nodes == ("node-1",)


# --- Holds ------------------------------------------------------------------------------------------------------------


def test_holds_cost_what_they_kept_in_service() -> None:
    opened = SINCE + DAY
    taken = opened + 2 * HOUR
    cases = [out(1, opened, out_at=taken, marked_at=taken), case(2, opened), out(3, opened)]
    found = made(
        cases,
        [
            hold(1, opened, taken),
            hold(2, SINCE - DAY, None),
            hold(3, opened + HOUR, opened + 3 * HOUR, held_by=HeldBy.DRAIN),  # out already
            hold(4, opened, opened + HOUR, key=f"{NODE}node-4", held_by=HeldBy.GRACE),
            hold(5, opened, opened, key="judge/gpu-hot", held_by=HeldBy.NO_ANSWER, node=""),
            hold(6, SINCE - DAY, SINCE - HOUR),
            hold(7, UNTIL, None),
        ],
    )
    by = {cost.held_by: cost for cost in found.holds}
    budget = by["budget"]
    assert (budget.count, budget.began, budget.standing, budget.led_to_quarantine) == (2, 1, 1, 1)
    assert budget.total == 30 * DAY + 2 * HOUR
    assert budget.lengths.least == 2 * HOUR
    assert budget.in_service == 722.0
    assert budget.machines == 2
    assert by["drain"].in_service == 0.0
    assert by["grace"].in_service == 1.0
    assert (by["no-answer"].count, by["no-answer"].machines, by["no-answer"].in_service) == (1, 0, 0.0)
    assert found.holds[0] is budget, "what cost most comes first"


def test_what_a_hold_ended_in_later_is_not_told() -> None:
    later = UNTIL + HOUR
    (cost,) = made([out(1, out_at=later, marked_at=later)], [hold(1, SINCE + DAY, later)]).holds
    assert (cost.standing, cost.led_to_quarantine, cost.in_service) == (1, 0, 29 * 24)


def test_a_policy_that_is_held_is_no_suspect() -> None:
    found = made(holds=[hold(1, SINCE, UNTIL, key="judge/gpu-hot", held_by=HeldBy.BREAKER)])
    assert found.holds[0].in_service == 0.0


# --- Several clusters -------------------------------------------------------------------------------------------------


def test_pools_of_one_name_in_two_clusters_are_two_and_a_machine_is_one() -> None:
    moved: dict[str, Any] = {"machine": "system-uuid:moved"}
    parts = (
        part([out(1, **moved)], sizes=[size(10)], cluster="a"),
        part([out(2, SINCE + 2 * DAY, **moved)], sizes=[size(20)], cluster="b"),
    )
    found = report(Material(SINCE, UNTIL, parts), WANTED)
    assert [(r.cluster, r.pool, r.node_days) for r in found.failures] == [("a", "h100", 300), ("b", "h100", 600)]
    assert found.all_failures is not None
    assert found.all_failures.node_days == 900
    assert [(p.cluster, p.outages) for p in found.pools] == [("a", 1), ("b", 1)]
    (worst,) = found.worst
    assert (worst.clusters, worst.nodes, worst.score) == (("b", "a"), ("node-2", "node-1"), 4)
    assert found.causes[0].out == 2


# --- Any history at all -----------------------------------------------------------------------------------------------

moments = st.integers(-20 * 24, 50 * 24).map(lambda hours: at(hours=hours))
maybe = st.none() | moments


@st.composite
def any_case(draw: st.DrawFn) -> Milestones:
    opened = draw(moments)
    return case(
        draw(st.integers(1, 9)),
        opened,
        pool=draw(st.sampled_from(["h100", "a100", ""])),
        provider=draw(st.sampled_from(["acme", ""])),
        policy=draw(st.sampled_from(["gpu-hot", "nvlink", ""])),
        severity=draw(st.none() | st.sampled_from(Severity)),
        by_person=draw(st.booleans()),
        gate=draw(st.booleans()),
        phase=draw(st.sampled_from(Phase)),
        fate=draw(st.sampled_from(Fate)),
        same_returned=draw(st.booleans()),
        out_at=draw(maybe),
        marked_at=draw(maybe),
        ticket_at=draw(maybe),
        asked_at=draw(maybe),
        acknowledged_at=draw(maybe),
        swapped_at=draw(maybe),
        back_at=draw(maybe),
        ended_at=draw(maybe),
    )


histories = st.lists(any_case(), max_size=6)
sizes = st.lists(
    st.builds(size, st.integers(0, 50), moments, pool=st.sampled_from(["h100", "a100"]), gpus=st.integers(0, 400)),
    max_size=4,
)


@given(histories, sizes)
def test_sums_are_those_of_a_plain_count(history: list[Milestones], counts: list[Any]) -> None:
    known = [one for one in history if lasts(one, SINCE, UNTIL)]
    found = made(known, sizes=counts)
    assert found.cases == made(history).cases == len(known)
    assert sum(cause.opened for cause in found.causes) == counted(one.opened_at for one in known)
    assert sum(cause.out for cause in found.causes) == counted(one.out_at for one in known)
    hours = sum(out_hours(one, SINCE, UNTIL) for one in known)
    assert sum(pool.hours for pool in found.pools) == pytest.approx(hours, abs=1e-3)
    assert sum(one.hours for one in found.providers) == pytest.approx(hours, abs=1e-3)
    assert sum(score.told for score in found.provider_scores) == counted(one.ticket_at for one in known)
    assert sum(score.asked for score in found.provider_scores) == counted(one.asked_at for one in known)
    failures = sum(rate.failures + rate.uncounted for rate in found.failures)
    assert failures == sum(within(failed(one), SINCE, UNTIL) for one in known)
    for pool in found.pools:
        assert pool.share is None or pool.share >= 0


@given(histories)
def test_times_are_those_of_a_plain_list(history: list[Milestones]) -> None:
    found = made(history)
    for name, (first, last) in STEPS.items():
        ends = ((getattr(one, f"{first}_at"), getattr(one, f"{last}_at"), one) for one in history)
        told = [
            last_at - first_at
            for first_at, last_at, one in ends
            if first_at is not None and within(last_at, SINCE, UNTIL) and last_at >= first_at
            if name != "found_to_out" or (one.policy and not one.by_person)
        ]
        spread = found.times[name]
        assert (spread.count if spread else 0) == len(told)
        if spread is not None:
            assert (spread.least, spread.most) == (min(told), max(told))
            assert abs(spread.median - median(told)) <= MS
            assert spread.least <= spread.median <= spread.p90 <= spread.most


@given(histories, sizes, st.integers(1, 29))
def test_two_halves_add_up_to_the_whole(history: list[Milestones], counts: list[Any], days: int) -> None:
    middle = SINCE + days * DAY
    whole, first, second = (
        made(history, sizes=counts, since=a, until=b) for a, b in ((SINCE, UNTIL), (SINCE, middle), (middle, UNTIL))
    )

    def adds_up(measure: Callable[[Report], float]) -> bool:
        return measure(whole) == pytest.approx(measure(first) + measure(second), abs=1e-6)

    assert adds_up(lambda r: sum(pool.hours for pool in r.pools))
    assert adds_up(lambda r: sum(score.hours_owed for score in r.provider_scores))
    assert adds_up(lambda r: sum(cause.out for cause in r.causes))
    assert adds_up(lambda r: sum(score.told for score in r.provider_scores))
    assert adds_up(lambda r: sum(rate.failures + rate.uncounted for rate in r.failures))
    assert adds_up(lambda r: sum(rate.node_days for rate in r.failures))
    assert adds_up(lambda r: sum(spread.count for spread in r.times.values() if spread))
    assert adds_up(lambda r: sum(p.confirmed + p.refuted + p.returned + p.open for p in r.policies))


@given(histories, st.randoms(use_true_random=False))
def test_the_order_of_cases_makes_no_difference(history: list[Milestones], random: Any) -> None:
    before = made(history, sizes=[size(10)])
    random.shuffle(history)
    assert replace(made(history, sizes=[size(10)]), worst=()) == replace(before, worst=())


def failed(one: Milestones) -> datetime | None:
    """The rule in words: taken out or confirmed, not dismissed or refuted, and not merely new."""
    if one.phase is Phase.DISMISSED or one.fate is Fate.REFUTED or (one.gate and not one.policy):
        return None
    return one.out_at or (one.opened_at if one.fate is Fate.CONFIRMED else None)
