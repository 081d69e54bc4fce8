"""What the random histories have in common: how time goes on, who is out, and all that befalls a swap."""

from __future__ import annotations

from datetime import timedelta

from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule

from quarantine.core.decision import RequestKind
from quarantine.core.policy import Rules
from quarantine.core.tickets import Filing, TicketState
from tests.core.invariants.laws import GROUP
from tests.core.invariants.world import NAMES, World

nodes = st.sampled_from(NAMES)
picks = st.integers(0, 9)
waits = st.sampled_from(
    [timedelta(seconds=15)] * 3
    + [timedelta(minutes=1)] * 3
    + [timedelta(minutes=6), timedelta(minutes=20), timedelta(hours=1), timedelta(hours=7), timedelta(days=1)]
)
long_waits = st.sampled_from([timedelta(days=2), timedelta(days=8), timedelta(days=15)])
spans = st.sampled_from([timedelta(minutes=5), timedelta(hours=4), timedelta(days=2)])
found_by = st.sampled_from(["gpu-hot", "gpu-hot", "nvlink", "ib-flapping"])


def bounded(examples: int) -> settings:
    """So many of them, the same in each run. Explaining a failure in more detail would take longer than finding it."""
    return settings(
        max_examples=examples,
        derandomize=True,
        deadline=None,
        phases=[Phase.explicit, Phase.generate, Phase.shrink],
        suppress_health_check=list(HealthCheck),
    )


class Swapping(RuleBasedStateMachine):
    """A world, and what the provider, its ticket system and the people who are asked do in it."""

    world: World

    def made(self, law: Rules) -> World:
        return World(law)

    def then(self, wait: timedelta, cycles: int = 1) -> None:
        """Time passes, and there are cycles."""
        self.world.pass_(wait)
        for _ in range(cycles):
            self.world.cycle()

    def out(self, pick: int) -> str:
        """A node with an open case; any, where there is none."""
        cases = self.world.open_cases()
        return cases[pick % len(cases)].node if cases else NAMES[pick]

    def there(self, name: str) -> bool:
        return name in self.world.kube.held

    def bad(self, policy: str) -> set[str]:
        return self.world.prom.bad.setdefault(policy, set())

    def device(self, name: str, policy: str, gpu: int) -> str:
        return name if policy == "ib-flapping" else self.world.gpus[name][gpu]

    # --- The swap -----------------------------------------------------------------------------------------------------

    def filing(self, pick: int) -> Filing | None:
        """A ticket of an open case that is there."""
        filings = [f for case in self.world.open_cases() for f in case.filings if f.ref in self.world.desk.held]
        return filings[pick % len(filings)] if filings else None

    @rule(pick=picks, state=st.sampled_from(TicketState), open_=st.booleans(), wait=waits)
    def the_provider_says(self, pick: int, state: TicketState, open_: bool, wait: timedelta) -> None:
        """Anything, in any order: what was closed is worked on again."""
        if (filing := self.filing(pick)) is not None:
            self.world.desk.says(filing.ref, state=state, open=open_, status=f"so {state}")
        self.then(timedelta(minutes=6))
        self.then(wait)

    @rule(pick=picks, fate=st.sampled_from(["deleted", "doubled", "doubled", "copied"]), wait=waits)
    def a_ticket_is(self, pick: int, fate: str, wait: timedelta) -> None:
        """`copied`: by the provider, who works on the copy."""
        if (filing := self.filing(pick)) is not None and fate != "deleted":
            made = self.world.desk.file(filing.key, ours=False)
            if fate == "copied":
                self.world.desk.says(made.ref, state=TicketState.IN_PROGRESS)
        elif filing is not None:
            self.world.desk.delete(filing.ref)
        self.then(timedelta(minutes=6))
        self.then(wait)

    @rule(down=st.booleans(), wait=waits)
    def the_ticket_system_answers(self, down: bool, wait: timedelta) -> None:
        self.world.desk.down = down
        self.then(wait)

    @rule(
        kinds=st.lists(st.sampled_from([RequestKind.APPROVE, RequestKind.DEFER]), min_size=1, max_size=2),
        pick=picks,
        late=st.sampled_from([timedelta(0), timedelta(0), timedelta(0), timedelta(hours=8)]),
        until=st.none() | spans,
        way=st.sampled_from(["cli", "slack", "group", "other"]),
        wait=waits,
    )
    def people_answer(
        self, kinds: list[RequestKind], pick: int, late: timedelta, until: timedelta | None, way: str, wait: timedelta
    ) -> None:
        """Yes or not now; both, twice, late, by Slack, or about another case of this machine."""
        name, now = self.out(pick), self.world.now
        said: dict[str, object] = {"at": now - late, "until": None if until is None else now + until}
        if way != "cli":
            said |= {"channel": "slack", "groups": (GROUP,) if way == "group" else ("S9OTHER",)}
        if way == "other":
            said["case"] = next((case.id for case in self.world.state.cases.values() if not case.open), "q-none")
        for kind in kinds:
            self.world.answer(kind, name, **said)
        self.then(wait)

    @rule(pick=picks, wait=waits)
    def all_is_asked_and_granted(self, pick: int, wait: timedelta) -> None:
        """What is asked of people is answered at once; the provider begins, and goes on."""
        for case in self.world.open_cases():
            if f"approval/{case.id}" in self.world.state.holds:
                self.world.answer(RequestKind.APPROVE, case.node, case=case.id)
        self.then(timedelta(minutes=1), 2)
        if (filing := self.filing(pick)) is not None:
            self.world.desk.says(filing.ref, state=TicketState.IN_PROGRESS)
        self.then(wait)
