"""A plan in the making: what has been decided so far, folded, so that every next decision sees the ones before it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import count

from quarantine.core import budget, pauses
from quarantine.core.case import Case, HeldBy
from quarantine.core.correlate import Suspect
from quarantine.core.decision import Action, BudgetState, Decision, Kind, State, Word
from quarantine.core.judge import Judgement
from quarantine.core.maintenance import under_way
from quarantine.core.model import Device, Mode, Node
from quarantine.core.policy import LoadedPolicy, Rules
from quarantine.core.providers import provider_of_node
from quarantine.core.snapshot import Snapshot
from quarantine.core.state import evolve

QUIET = timedelta(minutes=10)  # what is held is forgotten no sooner: a finding may come and go with every cycle
FLAPS = timedelta(minutes=20)  # nor is what is told of a server that answers now and then: it may be of many machines
SIGHT = "sight"  # the hold key of a cluster that is not believed


class Draft:
    """Gathers decisions. Lives only inside `plan()`; nothing of it escapes but the tuple of decisions."""

    def __init__(self, snapshot: Snapshot, rules: Rules) -> None:
        self.snapshot = snapshot
        self.rules = rules
        # In force for the whole plan: `restored.watch` lowers it where the ledger is older than the cluster.
        self.mode: Mode = snapshot.mode
        self.state: State = snapshot.state
        self.decisions: list[Decision] = []
        self.accounts: Mapping[str, budget.Account] = {}
        self.count_budgets()
        self.bad_now: dict[str, frozenset[tuple[str, Device]]] = {}  # by node: what is found bad in this cycle
        # Nodes with planned work under way, and what says so: nothing is judged there.
        self.maintained: Mapping[str, str] = self._maintained()
        self._judgements: tuple[Judgement, ...] = ()
        self.tripped: dict[tuple[str, str], str] = {}  # by policy and pool: why it is held there
        self.distrusted: dict[str, tuple[HeldBy, str]] = {}  # by policy: why nothing that it found is acted on
        self.suspects: dict[tuple[str, str, str], Suspect] = {}  # by policy, what and which: groups held for it
        self.unjudged: frozenset[str] = frozenset(self.maintained)  # and those that started a moment ago
        self.judged: frozenset[str] = frozenset()  # policies that were answered in full and are fit to be acted on
        self._open: dict[str, Case] = {case.node: case for case in self.state.cases.values() if case.open}

    @property
    def now(self) -> datetime:
        """The snapshot's."""
        return self.snapshot.now

    @property
    def nodes(self) -> Mapping[str, Node]:
        """The snapshot's."""
        return self.snapshot.nodes

    @property
    def budgets(self) -> Mapping[str, BudgetState]:
        """By pool, as this plan leaves them so far."""
        return {name: account.budget for name, account in self.accounts.items()}

    def count_budgets(self) -> None:
        """From the cluster, and from the ledger as this plan leaves it so far."""
        self.accounts = budget.accounts(self.nodes, self.state, self.rules, self.now)

    def found(self, judgements: Iterable[Judgement]) -> None:
        """Take note of everything that is found bad in this cycle, whether it may be acted on or not."""
        self._judgements = tuple(judgements)
        for judgement in self._judgements:
            self.unjudged |= {offence.node.name for offence in judgement.in_grace}
            for offence in (o for o in judgement.bad if o.node.name not in self.maintained):
                known = self.bad_now.get(offence.node.name, frozenset())
                self.bad_now[offence.node.name] = known | {(offence.policy.name, offence.device)}

    def judgement(self, policy: str) -> Judgement | None:
        """What this policy says in this cycle; None where it was not asked."""
        return next((judgement for judgement in self._judgements if judgement.policy.name == policy), None)

    def work_changed(self) -> None:
        """A person's word of planned work began or ended in this plan: what is judged is another."""
        self.maintained = self._maintained()
        self.unjudged, self.bad_now = frozenset(self.maintained), {}
        self.found(self._judgements)

    def _maintained(self) -> dict[str, str]:
        return under_way(self.nodes, self.state.words.values(), self.rules, self.now)

    def pause(self, *, policy: str = "", pool: str = "") -> Word | None:
        """The pause that stands for this policy or pool, or for everything."""
        return pauses.pause(self.state.words, self.now, policy=policy, pool=pool) if self.state.words else None

    def paused(self, case: Case) -> str | None:
        """Why nothing new is done about this machine; None where no pause of everything or of its pool stands.

        A policy's pause is in the way of its own findings: see `obstacles.hindrance`.
        """
        word = self.pause(pool=case.pool)
        return None if word is None else pauses.told(word)

    @property
    def disbelieved(self) -> bool:
        """Whether so much is gone at once that what is seen of the cluster is not believed."""
        return SIGHT in self.state.holds

    def knows(self, policies: Iterable[str]) -> bool:
        """Whether what these policies do not find bad in this cycle is not bad. One that is no more finds nothing."""
        return all(name in self.judged or self.rules.policy(name) is None for name in policies)

    def open_case(self, node: str) -> Case | None:
        """As `State.open_case_of`, without looking through all of them."""
        return self._open.get(node)

    def open_cases(self) -> list[Case]:
        """Oldest first."""
        return sorted(self._open.values(), key=lambda case: (case.opened_at, case.id))

    def emit(self, decision: Decision) -> None:
        """Decide, and fold."""
        decision = self._complete(decision)
        self.state = evolve(self.state, decision)
        self.decisions.append(decision)
        case = self.state.cases.get(decision.case) if decision.case else None
        known = self._open.get(case.node) if case is not None else None
        if case is not None and case.open:
            self._open[case.node] = case
        elif case is not None and known is not None and known.id == case.id:
            del self._open[case.node]
        if decision.kind is Kind.DECIDED and decision.action is Action.QUARANTINE and decision.pool in self.accounts:
            node = self.nodes.get(decision.node) if decision.node else None
            if node is not None:
                self.accounts[decision.pool].spend(node)

    def _complete(self, decision: Decision) -> Decision:
        """With what the record must have, and every decision of its kind has alike."""
        node = self.nodes.get(decision.node) if decision.node else None
        found: dict[str, object] = {}
        if node is not None and decision.machine is None:
            found["machine"] = node.machine
        if node is not None and decision.case is None and not decision.pool:
            found["pool"] = self.pool_name(node)
        if decision.action is Action.QUARANTINE and decision.budget is None and decision.pool in self.accounts:
            found["budget"] = self.accounts[decision.pool].budget
        if node is not None and not decision.provider and (pool := found.get("pool", decision.pool)):
            found["provider"] = provider_of_node(node, str(pool), self.rules)
        return provided(replace(decision, **found) if found else decision, self.rules)  # type: ignore[arg-type]

    def hold(self, decision: Decision) -> None:
        """Record a hold, unless it stands already for the same kind of reason."""
        standing = self.state.holds.get(decision.hold_key)
        if standing is None or standing.held_by is not decision.held_by:
            self.emit(decision)

    def lift(self, key: str, reason: str, *, node: str = "") -> None:
        """A hold that stands no more, without an action that would say so by itself.

        `node`: what it was about, where no case is named by its key.
        """
        hold = self.state.holds.get(key)
        if hold is None:
            return
        policy = self.rules.policy(hold.policy)
        fields: dict[str, object] = {"hold_key": key, "policy": hold.policy or None}
        fields |= policy_fields(policy) if policy is not None else {}
        case = next((self.state.cases[part] for part in key.split("/") if part in self.state.cases), None)
        if case is None:
            fields |= {"node": node or None}
        else:  # one that has ended is only named: nothing is decided about it any more
            fields |= {"node": case.node, "machine": case.machine, "pool": case.pool}
            fields |= {"case": case.id} if case.open else {}
        self.emit(self.decision(Kind.DECIDED, Action.JUDGE, reason, **fields))

    def fade(self, key: str, reason: str, after: timedelta = QUIET) -> None:
        """Lift what is found no more, once its hold has stood for a while: it may be found again in the next cycle."""
        hold = self.state.holds.get(key)
        if hold is not None and self.now >= hold.since + after and self.knows([hold.policy]):
            self.lift(key, reason)

    def decision(self, kind: Kind, action: Action, reason: str, **fields: object) -> Decision:
        """A decision of now, by the controller."""
        return Decision(
            **{"at": self.now, "actor": self.snapshot.actor, "kind": kind, "action": action, "reason": reason, **fields}  # type: ignore[arg-type]
        )

    def about_case(self, kind: Kind, action: Action, case: Case, reason: str, **fields: object) -> Decision:
        """A decision about a case that is open."""
        known = {"case": case.id, "node": case.node, "machine": case.machine, "pool": case.pool}
        return self.decision(kind, action, reason, **{**known, **fields})

    def pool_name(self, node: Node) -> str:
        """The node's pool; empty where it has none."""
        pool = budget.pool_of(node, self.rules)
        return pool.name if pool else ""

    def new_case_id(self, node: Node) -> str:
        """A label value, unique to this machine and moment: `q-7f3a2b1c05`."""
        for number in count():  # a second case of one node in one cycle is another case
            seed = "|".join(
                (self.snapshot.cluster, node.name, node.machine.node_uid, self.now.isoformat(), str(number))
            )
            found = f"q-{hashlib.sha256(seed.encode()).hexdigest()[:10]}"
            if found not in self.state.cases and found not in self.state.ended:
                return found
        raise AssertionError("unreachable")


def provided(decision: Decision, rules: Rules) -> Decision:
    """The same with who replaces the machines of its pool, where it names one that has a provider."""
    if decision.provider or not decision.pool:
        return decision
    found = rules.provider_of(decision.pool)
    return replace(decision, provider=found) if found else decision


def policy_fields(policy: LoadedPolicy) -> dict[str, object]:
    """What the trail says of the policy that decided."""
    return {"policy": policy.name, "policy_hash": policy.hash, "policy_revision": policy.revision}


def case_key(case_id: str) -> str:
    """The hold key of a case."""
    return f"case/{case_id}"


JUDGE, STRAY, NODE = "judge/", "stray/", "node/"  # of hold keys: a policy, what it finds nowhere, a node without a case


def judge_key(policy: LoadedPolicy) -> str:
    """The hold key of a policy that cannot be judged or is held itself."""
    return f"{JUDGE}{policy.name}"


NO_CASE: Mapping[HeldBy, str] = {
    HeldBy.IGNORED: "the node carries the opt-out label",
    HeldBy.NOT_IN_POOL: "the node is in no pool of the fleet file",
    HeldBy.GRACE: "the machine or its driver started a moment ago",
    HeldBy.DISMISSED: "a person put this machine back in service despite this finding",
    HeldBy.SIGHT: "nodes or marks of most open cases are gone at once, so it may be another cluster that is seen",
    HeldBy.WAIVED: "a person keeps this machine in service for a while",
}
