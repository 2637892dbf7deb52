"""Decisions about volumes count until they are bound or abandoned."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from scheduler.core.search.place import Placement, Refusal
from scheduler.core.state.nominations import Nomination
from scheduler.core.values.model import Expression, PodInfo, PodSelector, PodTerm, Requirements
from scheduler.core.volumes.assumed_volumes import AssumedVolume
from tests.scheduler.core.framework.cluster import (
    DATA,
    HOST,
    assumed_volumes,
    claim,
    cluster_of,
    disk,
    open_nodes,
    run,
    user,
)
from tests.scheduler.state_builder import GIB, StateBuilder, requests


def test_what_is_decided_counts_until_it_is_given_up() -> None:
    builder = cluster_of()
    disk(builder, "disk", "b")
    claim(builder, "first")
    claim(builder, "second")
    first, second = user(builder, "first"), user(builder, "second")
    seen = [run(builder, first), open_nodes(builder, second)]
    builder.state.forget(first.uid)
    seen.append(open_nodes(builder, second))

    assert seen == ["b", "", "b"]
    assert assumed_volumes(builder) == {}


def test_an_assumed_volume_that_changes_stays_assumed() -> None:
    builder = cluster_of()
    disk(builder, "disk", "b")
    claim(builder, "first")
    claim(builder, "second")
    run(builder, user(builder, "first"))
    second = user(builder, "second")
    disk(builder, "disk", "b", labels={"tier": "silver"})

    assert open_nodes(builder, second) == ""


def test_a_pod_that_a_new_term_matches_keeps_its_volume() -> None:
    builder = cluster_of("a")
    disk(builder, "first", "a")
    disk(builder, "second", "a")
    claim(builder)
    wants = Requirements(requests(1), claims=(DATA,))
    info = builder.pod(requirements=wants, labels={"app": "x"})
    builder.state.assume([builder.single(info)], [0], {DATA: AssumedVolume("second", 0)})
    selector = PodSelector((Expression("app", "In", ("x",)),), ("ns",))
    builder.pod(
        requirements=Requirements(requests(1), required_anti_affinity=(PodTerm(selector, HOST),))
    )

    assert assumed_volumes(builder) == {"data": ("second", "a")}


def test_what_is_bound_is_taken_even_before_its_volume_says_so() -> None:
    builder = cluster_of()
    disk(builder, "disk", "b")
    claim(builder, "first")
    claim(builder, "second")
    first, second = user(builder, "first"), user(builder, "second")
    run(builder, first)
    claim(builder, "first", volume="disk")

    assert assumed_volumes(builder) == {}
    assert open_nodes(builder, second) == ""
    builder.state.volumes.remove_claim(("ns", "first"))
    assert open_nodes(builder, second) == "b"


def test_a_pod_that_runs_with_an_unbound_claim_assumes_no_volume() -> None:
    builder = cluster_of()
    disk(builder, "disk", "b")
    claim(builder)
    wants = Requirements(requests(1), claims=(DATA,))
    pods = [builder.pod(node="a", requirements=wants, ours=False) for _ in range(2)]
    builder.state.remove_pod(pods[0].uid)

    assert assumed_volumes(builder) == {}
    assert open_nodes(builder, user(builder, "data")) == "b"


def test_a_removed_node_takes_its_assumed_volumes_along() -> None:
    builder = cluster_of()
    disk(builder, "disk")
    claim(builder)
    run(builder, user(builder, "data"))
    (node,) = {node for _, node in assumed_volumes(builder).values()}
    builder.state.remove_node(node)

    assert assumed_volumes(builder) == {}


def test_nominated_places_keep_their_volumes() -> None:
    builder = cluster_of("a", cpu=8)
    disk(builder, "disk", "a")
    claim(builder, "held")
    claim(builder, "other")
    shape = builder.single(user(builder, "held")).shape
    builder.state.nominations.set(Nomination(("Pod", "ns", "x"), 0, ((shape, (("a", 1),)),)))

    assert isinstance(builder.place_single(user(builder, "other")), Refusal)
    assert assumed_volumes(builder) == {}


def test_what_was_chosen_on_trial_is_what_is_assumed() -> None:
    builder = cluster_of("a", cpu=8)
    disk(builder, "first", "a")
    disk(builder, "second", "a")
    claim(builder, "held")
    claim(builder, "other")
    shape = builder.single(user(builder, "held")).shape
    builder.state.nominations.set(Nomination(("Pod", "ns", "x"), 0, ((shape, (("a", 1),)),)))

    decision = builder.place_single(user(builder, "other"))
    assert isinstance(decision, Placement)
    assert decision.volumes == {("ns", "other"): AssumedVolume("second", 0)}
    builder.run(decision)

    assert assumed_volumes(builder) == {"other": ("second", "a")}


SIZES = st.integers(1, 3)
VOLUMES = st.lists(st.tuples(st.sampled_from(["a", "b", "c", ""]), SIZES), max_size=5)
GANGS = st.lists(st.lists(st.tuples(st.integers(0, 5), SIZES), min_size=1, max_size=3), max_size=4)


@given(VOLUMES, GANGS, st.lists(st.tuples(st.integers(0, 9), st.booleans()), max_size=6))
def test_no_volume_is_assumed_twice(
    volumes: list[tuple[str, int]],
    gangs: list[list[tuple[int, int]]],
    turns: list[tuple[int, bool]],
) -> None:
    builder = cluster_of(cpu=2)
    for index, (node, size) in enumerate(volumes):
        disk(builder, f"disk-{index}", node, size=size * GIB)
    sizes = {number: size for gang in gangs for number, size in gang}
    for number, size in sizes.items():
        claim(builder, f"data-{number}", size=size * GIB)
    for index, gang in enumerate(gangs):
        builder.gang(f"g{index}", len(gang))
        for number, _ in gang:
            user(builder, f"data-{number}", group=f"g{index}")
    for index in range(len(gangs)):
        before = assumed_volumes(builder)
        decision = builder.place(f"g{index}")
        assert assumed_volumes(builder) == before
        if isinstance(decision, Placement):
            builder.run(decision)
            check(builder)
    for at, bound in turns:
        assumed = [pod for pod in builder.state.pods.values() if pod.assumed]
        if assumed:
            step(builder, assumed[at % len(assumed)].info, bound=bound)
            check(builder)


def step(builder: StateBuilder, info: PodInfo, *, bound: bool) -> None:
    """Abandon the pod, or bind its claims to the assumed volumes."""
    if not bound:
        builder.state.forget(info.uid)
        return
    storage = builder.state.volumes
    for key, assumed_volume in storage.assumed.of(info.requirements.claims).items():
        storage.set_claim(replace(storage.claims[key], volume=assumed_volume.volume))
        volume = storage.volumes[assumed_volume.volume]
        storage.set_volume(replace(volume, claim=key, available=False))


def check(builder: StateBuilder) -> None:
    """Check that each claim of a placed pod has its own volume, which reaches its node."""
    storage = builder.state.volumes
    given = {key: assumed_volume.volume for key, assumed_volume in storage.assumed}
    given |= {key: known.volume for key, known in storage.claims.items() if known.volume}
    assert len(set(given.values())) == len(given)
    for pod in builder.state.pods.values():
        for key in pod.info.requirements.claims:
            if pod.assumed:
                assert storage.reaches(given[key], pod.row)
                assert storage.volumes[given[key]].size >= storage.claims[key].size
    users = {
        key for pod in builder.state.pods.values() if pod.assumed
        for key in pod.info.requirements.claims
    }  # fmt: skip
    assert {key for key, _ in storage.assumed} <= users
