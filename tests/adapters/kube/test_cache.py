"""Order: what the watch tells late must not undo what we know from our own writes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quarantine.adapters.kube.api import Listing
from quarantine.adapters.kube.cache import NodeCache
from quarantine.core.errors import ClusterRefused, ClusterUnavailable
from quarantine.core.model import Machine, Node

LONG = timedelta(minutes=3)
NUMBERED: Callable[[int], str] = str
OPAQUE: Callable[[int], str] = lambda n: f"v-{(n * 7919) % 1000:03d}"  # noqa: E731 - no order in the text


class Time:
    """Seconds, moved by hand."""

    def __init__(self) -> None:
        self.at = 1000.0

    def __call__(self) -> float:
        return self.at


def node(version: str, *, name: str = "n", uid: str = "u") -> Node:
    return Node(
        name=name,
        machine=Machine(node_uid=uid),
        resource_version=version,
        labels={},
        annotations={},
        taints=(),
        unschedulable=False,
        ready=True,
    )


def cache_of(*nodes: Node, time: Time | None = None) -> NodeCache:
    cache = NodeCache("http://127.0.0.1", time or Time())
    cache.replace(Listing({n.name: n for n in nodes}, "1"), cache.writes())
    return cache


def versions(cache: NodeCache) -> dict[str, str]:
    return {name: n.resource_version for name, n in cache.read(until=0, stale_after=LONG).items()}


@pytest.mark.parametrize("v", [NUMBERED, OPAQUE], ids=["numbered", "opaque"])
class TestOwnWrites:
    def test_the_next_read_sees_the_write(self, v: Callable[[int], str]) -> None:
        cache = cache_of(node(v(5)))

        cache.wrote(node(v(8)), replaced=v(5))

        assert versions(cache) == {"n": v(8)}

    def test_the_watch_that_lags_behind_two_writes_undoes_neither(self, v: Callable[[int], str]) -> None:
        cache = cache_of(node(v(5)))
        cache.wrote(node(v(8)), replaced=v(5))
        cache.wrote(node(v(9)), replaced=v(8))

        cache.put(node(v(8)))
        assert versions(cache) == {"n": v(9)}
        cache.put(node(v(9)))
        cache.put(node(v(12)))
        assert versions(cache) == {"n": v(12)}

    def test_the_watch_that_was_faster_is_kept(self, v: Callable[[int], str]) -> None:
        cache = cache_of(node(v(5)))
        cache.put(node(v(8)))
        cache.put(node(v(9)))

        cache.wrote(node(v(8)), replaced=v(5))

        assert versions(cache) == {"n": v(9)}

    def test_a_write_does_not_bring_back_a_deleted_node(self, v: Callable[[int], str]) -> None:
        cache = cache_of(node(v(5)))
        cache.remove(node(v(9)))

        cache.wrote(node(v(8)), replaced=v(5))

        assert versions(cache) == {}

    def test_a_write_to_the_predecessor_leaves_the_successor(self, v: Callable[[int], str]) -> None:
        cache = cache_of(node(v(5)))
        cache.remove(node(v(9)))
        cache.put(node(v(10), uid="u2"))

        cache.wrote(node(v(8)), replaced=v(5))
        cache.remove(node(v(9)))

        assert versions(cache) == {"n": v(10)}

    def test_a_list_begun_before_the_write_does_not_undo_it(self, v: Callable[[int], str]) -> None:
        cache = cache_of(node(v(5)), node(v(4), name="other"))
        before = cache.writes()
        cache.wrote(node(v(8)), replaced=v(5))

        cache.replace(Listing({"n": node(v(5)), "other": node(v(6), name="other")}, v(7)), before)

        assert versions(cache) == {"n": v(8), "other": v(6)}

    def test_a_list_begun_after_the_write_is_the_truth(self, v: Callable[[int], str]) -> None:
        """Even where it goes back: etcd was restored from a backup."""
        cache = cache_of(node(v(5)))
        cache.wrote(node(v(8)), replaced=v(5))

        cache.replace(Listing({"n": node(v(2))}, v(2)), cache.writes())

        assert versions(cache) == {"n": v(2)}

    def test_a_list_that_misses_the_node_means_it_is_gone(self, v: Callable[[int], str]) -> None:
        cache = cache_of(node(v(5)))
        before = cache.writes()
        cache.wrote(node(v(8)), replaced=v(5))

        cache.replace(Listing({}, v(9)), before)

        assert versions(cache) == {}

    def test_a_write_that_changed_nothing_does_not_stop_the_watch(self, v: Callable[[int], str]) -> None:
        cache = cache_of(node(v(5)))
        cache.wrote(node(v(5)), replaced=v(5))

        cache.put(node(v(6)))

        assert versions(cache) == {"n": v(6)}


@dataclass
class Server:
    """One node's history at the API server, a watch that lags, and a cache fed by both."""

    v: Callable[[int], str]
    head: int = 0  # index of the newest version
    told: int = 0  # index up to which the watch has told
    listing: tuple[int, int] | None = None  # a list on its way: (index it saw, own writes before)
    cache: NodeCache = field(default_factory=lambda: NodeCache("http://127.0.0.1", Time()))

    def __post_init__(self) -> None:
        self.cache.replace(Listing({"n": node(self.v(0))}, self.v(0)), 0)

    def known(self) -> int:
        version = versions(self.cache)["n"]
        return next(i for i in range(self.head + 1) if self.v(i) == version)

    def step(self, what: str) -> None:
        match what:
            case "foreign write":
                self.head += 1
            case "own write":
                known = self.known()
                if known == self.head:  # else 409
                    self.head += 1
                    self.cache.wrote(node(self.v(self.head)), replaced=self.v(known))
                    assert self.known() == self.head
            case "watch":
                if self.listing is None and self.told < self.head:
                    self.told += 1
                    self.cache.put(node(self.v(self.told)))
            case "list begins":
                self.listing = (self.head, self.cache.writes())
            case "list ends":
                if self.listing is not None:
                    seen, before = self.listing
                    self.cache.replace(Listing({"n": node(self.v(seen))}, self.v(seen)), before)
                    self.told, self.listing = seen, None


@settings(max_examples=300, deadline=None)
@given(
    st.sampled_from([NUMBERED, OPAQUE]),
    st.lists(
        st.sampled_from(["foreign write", "own write", "own write", "watch", "watch", "list begins", "list ends"]),
        max_size=40,
    ),
)
def test_knowledge_never_goes_back_and_the_watch_always_catches_up(v: Callable[[int], str], steps: list[str]) -> None:
    server = Server(v)
    best = 0
    for what in steps:
        server.step(what)
        assert server.known() >= best
        best = server.known()

    server.step("list ends")
    while server.told < server.head:
        server.step("watch")
    assert server.known() == server.head


def test_a_stale_cache_is_not_believed() -> None:
    time = Time()
    cache = cache_of(node("5"), time=time)
    time.at += 180
    assert versions(cache) == {"n": "5"}

    time.at += 1
    with pytest.raises(ClusterUnavailable, match="181 s old"):
        versions(cache)

    cache.alive()
    assert versions(cache) == {"n": "5"}


def test_a_stale_answer_tells_the_cause_and_its_wish() -> None:
    time = Time()
    cache = cache_of(time=time)
    cache.failed(ClusterUnavailable("It burns.", retry_after=timedelta(seconds=7)))
    time.at += 500

    with pytest.raises(ClusterUnavailable, match="It burns") as caught:
        versions(cache)

    assert caught.value.retry_after == timedelta(seconds=7)


def test_a_cluster_without_nodes_is_an_answer_but_a_list_not_made_is_none() -> None:
    assert versions(cache_of()) == {}

    with pytest.raises(ClusterUnavailable, match="not been listed"):
        versions(NodeCache("http://127.0.0.1", Time()))


def test_a_refusal_is_told_without_waiting() -> None:
    cache = NodeCache("http://127.0.0.1", Time())
    cache.failed(ClusterRefused("Grant list on nodes."))

    with pytest.raises(ClusterUnavailable, match="Grant list on nodes"):
        cache.read(until=1e9, stale_after=LONG)


def test_what_was_read_does_not_change_under_the_reader() -> None:
    cache = cache_of(node("5"))
    before = cache.read(until=0, stale_after=LONG)
    cache.put(node("6"))
    cache.put(node("7", name="m"))

    assert {n.resource_version for n in before.values()} == {"5"}
    with pytest.raises(TypeError):
        before["x"] = node("1")  # type: ignore[index]


def test_what_a_watch_tells_late_does_not_undo_a_newer_list() -> None:
    cache = cache_of(node("5"))
    cache.replace(Listing({"n": node("9")}, "9"), cache.writes())
    cache.put(node("7"))
    assert versions(cache) == {"n": "9"}
    cache.put(node("10"))
    assert versions(cache) == {"n": "10"}
    cache.remove(node("11"))
    cache.put(node("12", uid="another"))
    assert versions(cache) == {"n": "12"}
