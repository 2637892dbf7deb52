"""From an unschedulable root to its victims' slot: conditions, evictions, nominations."""

from dataclasses import replace

import pytest
from prometheus_client import REGISTRY

from api.features import USUAL, Feature
from kube.base.errors import Forbidden, ServerError
from scheduler.core.state.nominations import Nomination
from scheduler.core.values.model import POD_GROUP, GroupSpec, PodInfo, PreemptionInfo, Slicing
from scheduler.decoding.decode import FAR_AWAY
from scheduler.support.config import Preemption
from scheduler.support.metrics import PREEMPTIONS
from tests.scheduler.eviction_harness import EvictionHarness
from tests.scheduler.harness import SchedulerApi
from tests.support.steps import ended


def names(*infos: list[PodInfo]) -> set[str]:
    return {info.name for each in infos for info in each}


def full_rack(harness: EvictionHarness, *, nodes: int = 2, mode: str = "all") -> list[PodInfo]:
    harness.builder.nodes(nodes, cpu=1)
    key = harness.builder.group("low", nodes, mode=mode)
    harness.observe(key)
    return harness.builder.runs("low", *(f"n{i}" for i in range(nodes)))


def preemptor(
    harness: EvictionHarness, pods: int, *, priority: int = 5, name: str = "high"
) -> list[PodInfo]:
    key = harness.builder.group(name, pods, priority=priority)
    harness.observe(key)
    return harness.builder.waits(name, pods, priority=priority)


def asks_to_run(harness: EvictionHarness, name: str, seconds: float) -> None:
    spec = harness.builder.state.forest.groups[POD_GROUP, "ns", name].spec
    assert spec is not None
    harness.builder.state.set_group(replace(spec, min_run=seconds))


async def test_a_gang_preempts_a_whole_unit() -> None:
    harness = EvictionHarness()
    low = full_rack(harness)
    high = preemptor(harness, 2)

    async with harness.leading():
        await harness.settle()
        assert set(harness.evictor_api.deleted) == names(low)
        assert not harness.api.bound
        harness.evictor_api.end()
        await harness.settle()

    assert set(harness.api.bound) == names(high)
    assert "high" not in {hold.root[2] for hold in harness.builder.state.nominations}


async def test_all_are_marked_before_the_first_is_deleted() -> None:
    harness = EvictionHarness()
    low = full_rack(harness)
    harness.evictor_api.fail_delete = lambda _name: ServerError(500, "InternalError", "not now")
    preemptor(harness, 2)

    async with harness.leading():
        await harness.settle(5)  # reports during evictions arrive later

    assert set(harness.evictor_api.marked) == {"PodGroup/low", *(f"Pod/{n}" for n in names(low))}


async def test_an_earlier_plan_is_carried_out_first_and_nominations_last() -> None:
    before = REGISTRY.get_sample_value("muster_scheduler_evictions_open")
    harness = EvictionHarness()
    harness.evictor_api.turns = 3
    harness.builder.nodes(60, cpu=1)
    for number in range(2):
        harness.observe(harness.builder.group(f"low{number}", 30, mode="all"))
        harness.builder.runs(f"low{number}", *(f"n{30 * number + i}" for i in range(30)))
    for number in range(2):
        preemptor(harness, 30, name=f"high{number}")

    async with harness.leading():
        await harness.settle(10)

    assert len(harness.evictor_api.deleted) == 60
    first = harness.evictor_api.order.index(f"delete {harness.evictor_api.deleted[0]}")
    marks = [
        at for at, said in enumerate(harness.evictor_api.order) if said.startswith("mark Pod/")
    ]
    assert sum(at > first for at in marks) >= 15, "the second plan's marks came first"
    assert {pod[:3] for pod in harness.evictor_api.deleted[:8]} == {
        harness.evictor_api.deleted[0][:3]
    }
    nominations = [
        at for at, said in enumerate(harness.evictor_api.order) if said.startswith("nominate")
    ]
    assert len(nominations) == 60
    assert min(nominations) > max(marks)
    assert REGISTRY.get_sample_value("muster_scheduler_evictions_open") == before


async def test_pods_that_are_bound_soon_have_no_node_written() -> None:
    """This includes the pods of another namespace, with its own share of writes."""
    harness = EvictionHarness(writers=80)
    harness.evictor_api.turns = 3
    harness.evictor_api.quick = True
    harness.builder.nodes(60, cpu=1)
    for index in range(60):
        harness.builder.pod(name=f"low{index}", node=f"n{index}", namespace="other")
    preemptor(harness, 60)

    async with harness.leading():
        await harness.settle(10)

    order = harness.evictor_api.order
    assert len(harness.api.bound) == 60
    assert not any(said.startswith("nominate") for said in order), "all are bound at once"


async def test_autoscalers_see_the_nominated_node_before_that_a_pod_is_unschedulable() -> None:
    harness = EvictionHarness()
    full_rack(harness)
    high = preemptor(harness, 2)
    harness.observe_pods()
    statuses = harness.reporter._api
    assert isinstance(statuses, SchedulerApi)

    async with harness.leading(unsettled="victims stay"):
        seen: list[tuple[bool, bool]] = []
        for _ in range(16):
            await harness.settle(0.25)
            told = {name for kind, name, _ in statuses.patches if kind == "Pod"}
            seen.append((set(harness.evictor_api.nominated) == names(high), bool(told)))

    assert (True, False) in seen
    assert (False, True) not in seen
    assert seen[-1] == (True, True)


async def test_a_delete_that_fails_is_retried() -> None:
    harness = EvictionHarness()
    low = full_rack(harness)
    failures = iter([ServerError(500, "InternalError", "not now")] * 3)
    harness.evictor_api.fail_delete = lambda _name: next(failures, None)
    preemptor(harness, 2)

    async with harness.leading():
        await harness.settle(10)

    assert set(harness.evictor_api.deleted) == names(low)


async def test_a_victim_that_cannot_be_deleted_stays() -> None:
    harness = EvictionHarness()
    low = full_rack(harness)
    harness.evictor_api.fail_delete = lambda _name: Forbidden(403, "Forbidden", "not yours")
    preemptor(harness, 2)

    async with harness.leading():
        await harness.settle(10)

    assert harness.builder.state.units.leaves(harness.builder.single(low[0])) is False
    assert len(harness.events_of("Preempting")) == 1
    assert not harness.evictor_api.nominated, "the place was given up before it was written"


async def test_others_are_evicted_instead_of_a_victim_that_cannot_be_deleted() -> None:
    harness = EvictionHarness()
    low = full_rack(harness)
    harness.builder.node("n2", cpu=1)
    harness.builder.group("other", 1, priority=1)
    (other,) = harness.builder.runs("other", "n2", priority=1)
    names_of_low = names(low)
    forbidden = Forbidden(403, "Forbidden", "not yours")
    harness.evictor_api.fail_delete = lambda name: forbidden if name in names_of_low else None
    preemptor(harness, 1)

    async with harness.leading():
        await harness.settle(10)

    assert harness.evictor_api.deleted == [other.name]


async def test_victim_and_preemptor_name_each_other() -> None:
    harness = EvictionHarness()
    full_rack(harness)
    preemptor(harness, 2)

    async with harness.leading():
        await harness.settle()

    ((winner, said),) = harness.events_of("Preempting")
    assert (winner, "PodGroup ns/low" in said) == ("PodGroup/high", True)
    victims = harness.events_of("Preempted")
    assert {who for who, _ in victims} >= {"PodGroup/low"}
    assert all("PodGroup ns/high of priority 5" in message for _, message in victims)


async def test_a_group_says_how_many_of_its_single_pods_were_preempted_and_for_whom() -> None:
    harness = EvictionHarness()
    full_rack(harness, nodes=3, mode="single")
    preemptor(harness, 2)

    async with harness.leading():
        await harness.settle()

    said = dict(harness.events_of("Preempted"))
    reader = "muster-scheduler: 2 pods preempted for PodGroup ns/high of priority 5"
    assert said.pop("PodGroup/low") == reader
    assert len(said) == 2, "each pod has an event of its own"


async def test_the_preemptors_pods_are_nominated() -> None:
    harness = EvictionHarness()
    full_rack(harness)
    high = preemptor(harness, 2)

    async with harness.leading():
        await harness.settle()

    assert set(harness.evictor_api.nominated) == names(high)
    assert set(harness.evictor_api.nominated.values()) == {"n0", "n1"}


async def test_while_victims_terminate_no_others_are_evicted() -> None:
    harness = EvictionHarness()
    low = full_rack(harness)
    harness.builder.node("other", cpu=2)
    more = harness.builder.runs(None, "other", "other", priority=1)
    preemptor(harness, 2)

    async with harness.leading():
        await harness.settle()
        for _ in range(5):
            harness.builder.state.reconsider_all()
            await harness.settle(11)

    assert set(harness.evictor_api.deleted) in (names(low), names(more))


async def test_equal_and_lower_priority_cannot_take_the_nominated_place() -> None:
    harness = EvictionHarness()
    full_rack(harness)
    high = preemptor(harness, 2)

    async with harness.leading():
        await harness.settle()
        for priority in (0, 5):
            harness.builder.waits(None, 2, priority=priority)
        harness.builder.state.remove_pod(f"uid-{harness.evictor_api.leaving[0]}")
        harness.evictor_api.leaving.pop(0)
        await harness.settle()
        assert not harness.api.bound
        harness.evictor_api.end()
        await harness.settle()

    assert set(harness.api.bound) == names(high)


async def test_higher_priority_may_take_the_nominated_place() -> None:
    harness = EvictionHarness()
    full_rack(harness)
    preemptor(harness, 2)

    async with harness.leading():
        await harness.settle()
        higher = preemptor(harness, 2, priority=9, name="higher")
        harness.evictor_api.end()
        await harness.settle()

    assert set(harness.api.bound) == names(higher)


async def test_the_nomination_ends_with_its_root() -> None:
    harness = EvictionHarness()
    full_rack(harness)
    high = preemptor(harness, 2)

    async with harness.leading():
        await harness.settle()
        harness.evictor_api.end()
        for info in high:
            harness.builder.state.remove_pod(info.uid)
        late = harness.builder.waits(None, 2)
        await harness.settle()

    assert set(harness.api.bound) == names(late)


async def test_a_node_deleted_while_victims_terminate_leads_to_a_new_plan() -> None:
    harness = EvictionHarness()
    full_rack(harness)
    harness.builder.node("n2", cpu=1)
    other = harness.builder.runs(None, "n2", priority=2)
    high = preemptor(harness, 2)

    async with harness.leading():
        await harness.settle()
        harness.builder.state.remove_node("n0")
        await harness.settle(10)
        harness.evictor_api.end()
        await harness.settle(10)

    assert set(harness.evictor_api.deleted) >= names(other)
    assert set(harness.api.bound) == names(high)


async def test_a_victim_that_does_not_terminate_is_not_waited_for_for_ever() -> None:
    harness = EvictionHarness(config=Preemption(patience_seconds=60))
    harness.builder.nodes(2, cpu=1)
    stuck = harness.builder.runs(None, "n0")
    other = harness.builder.runs(None, "n1", priority=1)
    (high,) = harness.builder.waits(None, priority=5)

    async with harness.leading():
        await harness.settle()
        assert set(harness.evictor_api.deleted) == names(stuck)
        by = harness.clock.monotonic() + 30
        info = harness.builder.single(stuck[0]).info
        harness.builder.state.set_pod(replace(info, preemption=PreemptionInfo(leaves_by=by)))
        await harness.settle(180)
        harness.evictor_api.leaving.remove(stuck[0].name)
        harness.evictor_api.end()
        await harness.settle()

    assert set(harness.evictor_api.deleted) == names(stuck, other)
    assert set(harness.api.bound) == {high.name}


async def test_no_pod_is_evicted_before_the_delay_is_over() -> None:
    harness = EvictionHarness()
    low = full_rack(harness)
    preemptor(harness, 2)
    spec = harness.builder.state.forest.groups[POD_GROUP, "ns", "high"].spec
    assert spec is not None
    harness.builder.state.set_group(replace(spec, delay=30.0))

    async with harness.leading():
        await harness.settle(29)
        assert not harness.evictor_api.deleted
        await harness.settle(2)

    assert set(harness.evictor_api.deleted) == names(low)


async def test_with_room_before_the_delay_is_over_no_pod_is_evicted() -> None:
    harness = EvictionHarness()
    full_rack(harness)
    high = preemptor(harness, 2)
    spec = harness.builder.state.forest.groups[POD_GROUP, "ns", "high"].spec
    assert spec is not None
    harness.builder.state.set_group(replace(spec, delay=30.0))

    async with harness.leading():
        await harness.settle(10)
        harness.builder.node("new", cpu=2)
        await harness.settle(40)

    assert not harness.evictor_api.deleted
    assert set(harness.api.bound) == names(high)


async def test_a_gang_is_evicted_once_its_min_run_time_is_over() -> None:
    harness = EvictionHarness(config=Preemption(most_min_run_seconds=600))
    low = full_rack(harness)
    start = harness.clock.now().timestamp()
    for info in low:
        harness.builder.state.set_pod(replace(info, started=start))
    asks_to_run(harness, "low", 40.0)
    preemptor(harness, 2)
    key, said = (POD_GROUP, "ns", "high"), set()

    async with harness.leading():
        for _ in range(3):
            harness.builder.state.reconsider_all()
            await harness.settle(12)
            said.add(harness.summary(key))
        assert not harness.evictor_api.deleted
        # Each root that waits is decided again after a minute at the latest.
        await harness.settle(62)
        assert set(harness.evictor_api.deleted) == names(low)

    (only,) = said
    assert only.endswith("cannot be preempted before their min-run-time is over.")


async def test_a_protected_pod_costs_no_decisions_on_the_many_that_wait() -> None:
    """A tenant may restart a pod that asks for a short protection again and again."""
    harness = EvictionHarness(config=Preemption(most_min_run_seconds=600))
    harness.builder.nodes(1, cpu=2)
    harness.builder.runs(None, "n0", priority=9)
    (young,) = harness.builder.runs(None, "n0")
    asks = PreemptionInfo(min_run=3.0)
    start = harness.clock.now().timestamp()
    harness.builder.state.set_pod(replace(young, started=start, preemption=asks))
    # None of them fits if that one goes.
    harness.builder.waits(None, 100, cpu=2, priority=5)
    attempts = PREEMPTIONS.labels("none")
    before = attempts._value.get()

    async with harness.leading():
        for turn in range(10):
            await harness.settle(3)
            moved = replace(young, started=start + 3 * turn, preemption=asks)
            harness.builder.state.set_pod(moved)
        assert attempts._value.get() - before <= 2


@pytest.mark.parametrize("marked", [1, 2])
async def test_a_new_leader_completes_evictions_that_were_begun(marked: int) -> None:
    harness = EvictionHarness()
    low = full_rack(harness)
    for info in low[:marked]:
        harness.builder.state.set_pod(replace(info, preemption=PreemptionInfo(targeted=True)))

    harness.evictor.reset()
    harness.evictor.resume()
    async with harness.leading():
        await harness.settle()

    assert set(harness.evictor_api.deleted) == names(low)


async def test_a_new_leader_evicts_the_rest_of_a_slice() -> None:
    harness = EvictionHarness()
    harness.builder.nodes(2, cpu=4, rack_of=1)
    key = harness.builder.group("low", 4)
    harness.builder.state.set_group(GroupSpec(key, 4, priority=0, slicing=Slicing(2, "rack")))
    first = harness.builder.runs("low", "n0", "n0")
    second = harness.builder.runs("low", "n1", "n1")
    begun = replace(second[0], preemption=PreemptionInfo(targeted=True))
    harness.builder.state.set_pod(begun)

    harness.evictor.reset()
    harness.evictor.resume()
    async with harness.leading():
        await harness.settle()

    assert set(harness.evictor_api.deleted) == names(second)
    assert not names(first) & set(harness.evictor_api.deleted)


async def test_without_preemption_no_pod_is_evicted() -> None:
    harness = EvictionHarness(config=Preemption(enabled=False))
    full_rack(harness)
    preemptor(harness, 2)

    async with harness.leading():
        await harness.settle(5)

    assert not harness.evictor_api.deleted


def off(*, preempts: bool = True, enabled: bool = True) -> tuple[EvictionHarness, str]:
    """Return a harness without preemption, with a pending root, and the expected message."""
    gates = USUAL.without(Feature.PREEMPTION)
    harness = EvictionHarness(config=Preemption(enabled=enabled), gates=gates)
    full_rack(harness)
    key = harness.builder.group("high", 2, priority=5, preempts=preempts)
    harness.observe(key)
    harness.builder.waits("high", 2, priority=5)
    return harness, " No pods are preempted because feature gate WorkloadAwarePreemption is off."


async def test_while_the_feature_gate_is_off_nobody_is_evicted_and_that_is_said() -> None:
    harness, text = off()

    async with harness.leading():
        await harness.settle(5)

    assert not harness.evictor_api.deleted
    assert harness.summary((POD_GROUP, "ns", "high")).endswith(text)


@pytest.mark.parametrize("how", [{"preempts": False}, {"enabled": False}])
async def test_who_would_not_preempt_anyway_hears_nothing_of_the_gate(how: dict[str, bool]) -> None:
    harness, _ = off(**how)

    async with harness.leading():
        await harness.settle(5)

    assert "feature gate" not in harness.summary((POD_GROUP, "ns", "high"))


async def test_the_answer_with_the_gate_is_shared_by_equal_roots() -> None:
    """A thousand of them are decided once, as without the message."""
    harness, text = off()
    for number in range(20):
        preemptor(harness, 2, name=f"equal{number}")
    decided = "muster_scheduler_scheduling_attempt_duration_seconds_count"
    before = REGISTRY.get_sample_value(decided) or 0

    async with harness.leading():
        await harness.settle(2)

    # At the end the harness decides on all of them five more times.
    assert (REGISTRY.get_sample_value(decided) or 0) - before < 20
    assert harness.summary((POD_GROUP, "ns", "equal19")).endswith(text)


async def test_what_was_nominated_before_is_given_back_while_the_gate_is_off() -> None:
    harness, _ = off()
    for pod in list(harness.builder.state.pods.values()):
        if pod.waiting:
            harness.builder.state.set_pod(replace(pod.info, nominated="n0"))

    harness.preemptor.restore()
    async with harness.leading():
        await harness.settle(1)

    assert not any(harness.evictor_api.nominated.values())
    assert not list(harness.builder.state.nominations)


async def test_the_blocker_names_the_victims() -> None:
    harness = EvictionHarness()
    full_rack(harness)
    preemptor(harness, 2)

    async with harness.leading():
        await harness.settle(5)

    status = harness.observed[POD_GROUP, "ns", "high"].status or {}
    assert status["blocker"]["summary"].endswith("Waiting for the evicted pods to terminate.") or (
        "PodGroup ns/low" in status["blocker"]["summary"]
    )


async def test_the_status_of_a_delayed_preemption_does_not_change_with_each_decision() -> None:
    harness = EvictionHarness()
    full_rack(harness)
    preemptor(harness, 2)
    key = (POD_GROUP, "ns", "high")
    spec = harness.builder.state.forest.groups[key].spec
    assert spec is not None
    harness.builder.state.set_group(replace(spec, delay=30.0))
    said = set()

    async with harness.leading():
        for _ in range(4):
            harness.builder.state.reconsider_all()
            await harness.settle(5)
            said.add(harness.summary(key))
        harness.builder.node("new", cpu=2)
        await harness.settle(5)

    (only,) = said
    assert only.endswith("unless it fits within 30 s.")


async def test_neither_side_hears_the_names_of_another_namespace() -> None:
    harness = EvictionHarness()
    harness.builder.nodes(1, cpu=1)
    secret = harness.builder.pod(name="secret-victim", node="n0", namespace="other")
    preemptor(harness, 1, name="secret-preemptor")

    async with harness.leading():
        await harness.settle(2)
        blocker = harness.summary((POD_GROUP, "ns", "secret-preemptor"))
        told = list(harness.events.told)
        mark = harness.evictor_api.marks[secret.name]
        harness.evictor_api.end()
        await harness.settle()

    to_preemptor = [message for who, _, message in told if "preemptor" in who]
    to_victim = [message for who, _, message in told if "victim" in who]
    assert not [text for text in (*to_preemptor, blocker) if "secret-victim" in text]
    assert not [text for text in (*to_victim, mark["message"]) if "secret-preemptor" in text]
    assert any("1 Pod of other namespaces" in text for text in to_preemptor)
    assert any("of another namespace, of priority 5" in text for text in to_victim)


async def test_a_victim_whose_eviction_raises_an_error_of_ours_is_spared() -> None:
    harness = EvictionHarness()
    harness.builder.nodes(2, cpu=1)
    (bad, good) = harness.builder.runs(None, "n0", "n1")
    harness.evictor_api.fail_delete = lambda name: KeyError("x") if name == bad.name else None
    high = preemptor(harness, 1)

    async with harness.leading():
        await harness.settle()
        harness.evictor_api.end()
        await harness.settle(5)
        harness.evictor_api.end()
        await harness.settle(5)

    assert set(harness.api.bound) == names(high)
    assert harness.evictor_api.deleted == [good.name]


async def test_the_places_of_a_root_that_is_gone_are_room_at_once() -> None:
    harness = EvictionHarness()
    harness.builder.nodes(1, cpu=1)
    preemptor(harness, 9)
    key, state = (POD_GROUP, "ns", "high"), harness.builder.state
    decide_all(harness)
    low = harness.builder.single(harness.builder.pod(cpu=1))
    state.nominations.set(Nomination(key, 10, ((low.shape, (("n0", 1),)),)))
    decide_all(harness)
    assert low.waiting

    for uid in list(state.forest.groups[key].members):
        state.remove_pod(uid)
    decide_all(harness)

    assert low.assumed


def decide_all(harness: EvictionHarness) -> None:
    """Decide everything that is ready after the changes so far, as the woken loop does."""
    for _ in harness.cycle.refresh():
        pass
    while harness.queue:
        ended(harness.cycle.step())
        for _ in harness.cycle.refresh():
            pass


@pytest.mark.parametrize(
    ("requested", "waits"),
    [
        pytest.param(None, 30, id="nothing was requested"),
        pytest.param(0.0, 30, id="as it was refused"),
        pytest.param(-20.0, 10, id="some time ago"),
        pytest.param(-60.0, 0, id="long ago"),
        pytest.param(40.0, 30, id="by a clock that is ahead"),
        pytest.param(-FAR_AWAY, 0, id="and it failed"),
    ],
)
async def test_the_delay_counts_from_the_request_for_capacity(
    requested: float | None, waits: float
) -> None:
    harness = EvictionHarness()
    low = full_rack(harness)
    preemptor(harness, 2)
    spec = harness.builder.state.forest.groups[POD_GROUP, "ns", "high"].spec
    assert spec is not None
    at = None if requested is None else harness.clock.now().timestamp() + requested
    harness.builder.state.set_group(replace(spec, delay=30.0, requested=at))

    async with harness.leading():
        await harness.settle(max(0, waits - 2))
        assert waits == 0 or not harness.evictor_api.deleted
        await harness.settle(4)

    assert set(harness.evictor_api.deleted) == names(low)


async def test_a_request_that_fails_ends_the_delay_at_once() -> None:
    harness = EvictionHarness()
    low = full_rack(harness)
    preemptor(harness, 2)
    spec = harness.builder.state.forest.groups[POD_GROUP, "ns", "high"].spec
    assert spec is not None
    harness.builder.state.set_group(replace(spec, delay=3600.0))

    async with harness.leading():
        await harness.settle(5)
        assert not harness.evictor_api.deleted
        harness.builder.state.set_group(replace(spec, delay=3600.0, requested=-FAR_AWAY))
        await harness.settle(2)

    assert set(harness.evictor_api.deleted) == names(low)
