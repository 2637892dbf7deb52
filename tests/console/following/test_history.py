"""The last hours: pending, started and preempting workloads, and the utilization of domains."""

from console.base.protocols import Viewer
from console.following.history import KEPT, MOST_DOMAINS, RecentHistory
from tests.console.cluster_builder import ALL, RACK, Builder


def begun(cluster: Builder) -> RecentHistory:
    history = RecentHistory(cluster.following, now=lambda: cluster.time)
    follow(cluster, history)
    return history


def follow(cluster: Builder, history: RecentHistory, seconds: float = 0) -> None:
    cluster.time += seconds
    cluster.following.refresh()
    history.follow()


def test_a_step_counts_what_waits_and_what_came_since_the_last() -> None:
    cluster = Builder()
    cluster.racks()
    cluster.gang("there-before", 20)
    history = begun(cluster)
    assert history.last_hours(3, ALL).at == []
    assert history.latest(ALL) is None

    cluster.gang("new", 20)
    follow(cluster, history, 30)
    assert history.latest(ALL) is None
    follow(cluster, history, 30)
    follow(cluster, history, 60)

    found = history.last_hours(3, ALL)
    assert found.step == 60
    assert found.waiting == [2, 2]
    assert found.arrivals == [1, 0]
    assert found.preemptions == [0, 0]
    latest = history.latest(ALL)
    assert latest is not None
    assert (latest.at, latest.waiting) == (found.at[-1], 2)


def test_before_the_first_step_it_says_when_that_comes() -> None:
    cluster = Builder()
    history = RecentHistory(cluster.following, now=lambda: cluster.time)
    assert history.last_hours(3, ALL).first is None

    cluster.time = 1_795_435_205.4
    follow(cluster, history)
    assert history.last_hours(3, ALL).first == "2026-11-23T12:01:06Z"
    follow(cluster, history, 61)
    assert history.last_hours(3, ALL).first is None


def test_the_used_share_of_the_outermost_domains() -> None:
    cluster = Builder()
    cluster.racks(blocks=1, racks=2, nodes=1, cpu=4)
    cluster.use_keys(RACK)
    cluster.pod(node="n-1-1-1", name="runs")
    history = begun(cluster)
    follow(cluster, history, 60)
    assert history.last_hours(1, ALL).utilisation == {"r1": [0.25], "r2": [0.0]}


def test_what_a_viewer_may_not_see_is_left_out() -> None:
    cluster = Builder()
    cluster.racks(blocks=1)
    cluster.use_keys(RACK)
    history = begun(cluster)
    cluster.gang("new", 20)
    follow(cluster, history, 60)
    waiting = history.last_hours(1, ALL).waiting[0]

    theirs = history.last_hours(1, Viewer("a", "s", namespaces=frozenset({"ns"}), nodes=False))
    assert (theirs.waiting, theirs.utilisation) == ([waiting - 1], {})  # the keys' groups are not
    others = history.last_hours(1, Viewer("b", "t", namespaces=frozenset({"other"}), nodes=False))
    assert (others.waiting, others.arrivals) == ([0], [0])
    latest = history.latest(Viewer("b", "t", namespaces=frozenset(), nodes=False))
    assert latest is not None
    assert (latest.waiting, latest.utilisation) == (0, {})


def test_it_has_one_day_at_most_and_a_gap_is_one_step() -> None:
    cluster = Builder()
    cluster.racks()
    history = begun(cluster)
    for _ in range(KEPT + 10):
        follow(cluster, history, 60)
    assert len(history.last_hours(1000, ALL).at) == KEPT
    assert len(history.last_hours(1, ALL).at) == 60
    follow(cluster, history, 36_000)
    assert len(history.last_hours(1000, ALL).at) == KEPT


def test_of_thousands_of_domains_the_largest_are_kept() -> None:
    cluster = Builder()
    for number in range(MOST_DOMAINS + 50):
        cluster.node(f"n{number}", 1 + (number == 70), labels={RACK: f"r{number}"})
    cluster.use_keys(RACK)
    history = begun(cluster)
    follow(cluster, history, 60)
    found = history.last_hours(1, ALL).utilisation
    assert len(found) == MOST_DOMAINS
    assert "r70" in found
