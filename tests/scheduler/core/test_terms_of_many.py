"""Thousands of pods with terms about others: each costs only its own labels and terms."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from scheduler.core.pods.pod_selectors import MOST_ALIKE, NO_MATCHES
from scheduler.core.search.place import Placement, Refusal
from scheduler.core.values.model import Expression, PodInfo, PodSelector, PodTerm, Requirements
from tests.scheduler.state_builder import StateBuilder, requests
from tests.support.counting import calls


def selector(*expressions: Expression, everywhere: bool = False) -> PodSelector:
    return PodSelector(expressions, ("ns",), () if everywhere else None)


def away_from(selected: PodSelector) -> Requirements:
    return Requirements(requests(1), required_anti_affinity=(PodTerm(selected, "host"),))


def own_label(number: int) -> PodSelector:
    return selector(Expression("app", "In", (f"a{number}",)))


def own_key(number: int) -> PodSelector:
    return selector(Expression(f"k{number}", "Exists", ()))


def lacking_a_key(number: int) -> PodSelector:
    return selector(Expression(f"k{number}", "DoesNotExist", ()))


def all_but_one(number: int) -> PodSelector:
    return selector(Expression("app", "NotIn", (f"a{number}",)))


def everywhere_but(number: int) -> PodSelector:
    return selector(Expression("app", "NotIn", (f"a{number}",)), everywhere=True)


def common_label(number: int) -> PodSelector:
    common, other = Expression("all", "Exists", ()), Expression("app", "NotIn", (f"a{number}",))
    return selector(common, other)


KINDS = [own_label, own_key, lacking_a_key, all_but_one, everywhere_but, common_label]


def labels(number: int) -> dict[str, str]:
    return {"app": f"a{number}", "all": "x", f"k{number}": ""}


def fill(builder: StateBuilder, kind: Callable[[int], PodSelector], pods: int) -> list[PodInfo]:
    return [
        builder.pod(
            node=f"n{number % 4}",
            requirements=away_from(kind(number)),
            labels=labels(number),
            ours=number % 2 == 0,
        )
        for number in range(pods)
    ]


def cluster() -> StateBuilder:
    builder = StateBuilder()
    for number in range(4):
        builder.node(f"n{number}", labels={"host": f"n{number}"})
    return builder


@pytest.mark.parametrize("kind", KINDS)
def test_the_next_pod_costs_the_same_however_many_there_are(
    kind: Callable[[int], PodSelector],
) -> None:
    def last(pods: int) -> int:
        builder = cluster()
        fill(builder, kind, pods)
        builder.state.take_changes()

        def more() -> None:
            info = builder.pod(requirements=away_from(kind(pods)), labels=labels(pods))
            builder.state.set_pod(replace(info, labels=labels(pods + 1)))
            builder.state.remove_pod(info.uid)
            builder.state.take_changes()

        return calls(more)

    few, many = last(2 * MOST_ALIKE), last(8 * MOST_ALIKE)

    assert many <= few * 1.3


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_is_left_when_they_are_gone(kind: Callable[[int], PodSelector]) -> None:
    builder = cluster()
    state = builder.state
    for info in fill(builder, kind, 300):
        state.remove_pod(info.uid)
    state.take_changes()

    assert (len(state.shapes), len(state.selectors), len(state.nodes.match_counts)) == (0, 0, 0)
    assert len(state.pod_shapes.label_index) == 0
    assert not state.pod_shapes.crowded


def test_a_pod_with_one_term_too_many_is_refused_until_others_go() -> None:
    builder = cluster()
    state = builder.state
    pods = [builder.pod(requirements=away_from(all_but_one(n)), ours=False) for n in range(99)]
    waits = builder.pod(requirements=away_from(all_but_one(99)))
    refusal = builder.place_single(waits)
    assert isinstance(refusal, Refusal)
    for info in pods:
        state.remove_pod(info.uid)
    changes = state.take_changes()

    assert refusal.shortage.message == (
        "A pod has terms about other pods that no label with In or Exists tells apart from 64"
        " of its namespace. Use fewer."
    )
    assert ("Pod", "ns", waits.name) in changes.reconsider
    assert isinstance(builder.place_single(waits), Placement)
    assert builder.single(waits).shape.requirements == waits.requirements


def test_a_pod_whose_adding_broke_off_is_not_considered_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    builder = cluster()
    state = builder.state
    pods = [builder.pod(requirements=away_from(all_but_one(n)), ours=False) for n in range(99)]
    with monkeypatch.context() as patch:
        patch.delattr(type(state), "_group_of")
        with pytest.raises(AttributeError):
            builder.pod(requirements=away_from(all_but_one(99)))
    for info in pods:
        state.remove_pod(info.uid)
    state.take_changes()

    assert not state.pod_shapes.crowded
    assert len(state.selectors) == 0


def test_the_terms_of_one_namespace_take_nothing_from_another() -> None:
    builder = cluster()
    for number in range(200):
        builder.pod(requirements=away_from(everywhere_but(number)), namespace="loud", ours=False)
    quiet = builder.pod(requirements=away_from(everywhere_but(999)), namespace="quiet")

    assert builder.single(quiet).shape.requirements == quiet.requirements


def caught_up(builder: StateBuilder) -> int:
    """Return the number of steps."""
    return sum(1 for _ in builder.state.catch_up())


def test_a_term_about_everybody_changes_running_pods_in_few_steps() -> None:
    builder = cluster()
    for number in range(500):
        builder.pod(node=f"n{number % 4}", labels={"app": "a"})
    wide = away_from(selector(everywhere=True))

    def select() -> None:
        builder.pod(requirements=wide)
        caught_up(builder)

    work = calls(select)
    selected = builder.state.selectors.match_id((selector(everywhere=True),))

    assert work / 500 < 25
    assert builder.state.nodes.match_counts.amounts(selected).tolist() == [125] * 4


def of_all_kinds(builder: StateBuilder, first: int, last: int) -> list[PodInfo]:
    """Create running pods of which no two have the same requirements."""
    return [
        builder.pod(
            node=f"n{number % 4}",
            requirements=Requirements(requests(1 + number)),
            labels={"app": "a"},
        )
        for number in range(first, last)
    ]


EVERYBODY = selector(Expression("app", "Exists", ()))


def test_a_term_about_thousands_of_kinds_changes_them_in_steps() -> None:
    def at_once(pods: int) -> tuple[int, int]:
        builder = cluster()
        of_all_kinds(builder, 0, pods)
        work = calls(lambda: builder.pod(requirements=away_from(EVERYBODY)))
        return work, caught_up(builder)

    few, more = at_once(400), at_once(1600)

    assert more[0] <= few[0] * 1.2
    assert more[1] >= few[1] * 4


def test_terms_that_go_are_taken_out_in_steps_too() -> None:
    builder = cluster()
    pods = of_all_kinds(builder, 0, 400)
    declares = builder.pod(requirements=away_from(EVERYBODY), ours=False)
    caught_up(builder)
    builder.state.remove_pod(declares.uid)
    builder.state.take_changes()

    assert builder.state.behind
    assert caught_up(builder) >= 3
    assert len(builder.state.selectors) == 0
    assert {builder.state.pods[pod.uid].shape.matches for pod in pods} == {NO_MATCHES}


def counted(builder: StateBuilder) -> dict[int, int]:
    """Return the number of pods on each row that `EVERYBODY` selects."""
    counts = builder.state.nodes.match_counts
    selected = builder.state.selectors.match_id((EVERYBODY,))
    pairs = zip(counts.rows(selected).tolist(), counts.amounts(selected).tolist(), strict=True)
    return dict(pairs)


def test_what_changes_between_the_steps_is_counted_right() -> None:
    """Pods change in every way while a term is applied."""
    builder = cluster()
    state = builder.state
    pods = of_all_kinds(builder, 0, 600)
    builder.pod(requirements=away_from(EVERYBODY))
    steps = state.catch_up()
    next(steps)
    for at in (10, 200, 300, 590):  # before, at and after the current position
        state.remove_pod(pods[at].uid)
        state.set_pod(replace(pods[at + 1], labels={}))
        state.set_pod(replace(pods[at + 2], phase="Succeeded"))
        state.set_pod(replace(pods[at + 3], labels={"app": "other"}))
    of_all_kinds(builder, 600, 700)
    declares = builder.pod(requirements=away_from(all_but_one(1)))
    for _ in steps:
        pass
    state.remove_pod(declares.uid)
    state.take_changes()
    caught_up(builder)

    anew = cluster()
    anew.pod(requirements=away_from(EVERYBODY))
    for pod in state.pods.values():
        if pod.info.node:
            anew.state.set_pod(pod.info)
    caught_up(anew)
    assert counted(builder) == counted(anew)
    assert sum(counted(builder).values()) == 700 - 3 * 4
    selected = builder.state.selectors.match_id((EVERYBODY,))
    for pod in state.pods.values():
        assert (selected in pod.shape.matches.counted) == ("app" in pod.info.labels)
        assert len(pod.shape.matches.counted) <= 2


def test_a_term_about_pods_of_all_shapes_makes_each_shape_once() -> None:
    builder = cluster()
    for number in range(500):
        wants = Requirements((("cpu", number + 1),))
        builder.pod(node=f"n{number % 4}", requirements=wants)
    requests_before = {pod.shape.request for pod in builder.state.pods.values()}
    wide = builder.pod(requirements=away_from(selector(everywhere=True)))
    caught_up(builder)
    shapes = [pod.shape for pod in builder.state.pods.values() if pod.info.uid != wide.uid]

    assert {shape.request for shape in shapes} == requests_before
    assert len({shape.index for shape in shapes}) == 500
    assert len(builder.state.shapes) == 1001


def test_a_namespace_relabelled_costs_its_own_pods_only() -> None:
    def work(others: int) -> int:
        builder = cluster()
        term = PodSelector((), (), (Expression("team", "In", ("x",)),))
        builder.pod(requirements=away_from(term), namespace="far")
        for number in range(others):
            builder.pod(namespace=f"other{number % 5}")
        builder.pod(namespace="near")
        return calls(lambda: builder.state.set_namespace("near", {"team": "x"}))

    assert work(300) == work(3)


def test_a_namespace_that_is_gone_is_forgotten() -> None:
    builder = cluster()
    term = PodSelector((), (), (Expression("team", "In", ("x",)),))
    builder.state.set_namespace("near", {"team": "x"})
    builder.pod(node="n1", requirements=away_from(term), namespace="far")
    same = builder.pod(namespace="near")
    before = int((builder.state.framework.slots(builder.single(same).shape) > 0).sum())
    builder.state.remove_namespace("near")
    after = int((builder.state.framework.slots(builder.single(same).shape) > 0).sum())

    assert (before, after) == (3, 4)
    assert builder.state.selectors.namespaces == {}


def test_thousands_of_different_pods_cost_the_same_each() -> None:
    """No two have the same requests, labels or selectors."""

    def pod(builder: StateBuilder, number: int) -> PodInfo:
        wants = Requirements(
            (("cpu", number + 1),),
            selector=((f"key{number}", "x"),),
            required_anti_affinity=(PodTerm(own_label(number), "host"),),
        )
        return builder.pod(requirements=wants, labels=labels(number))

    def last(pods: int) -> int:
        builder = cluster()
        for number in range(pods):
            pod(builder, number)
        builder.state.take_changes()

        def more() -> None:
            builder.state.remove_pod(pod(builder, pods).uid)
            builder.state.take_changes()

        return calls(more)

    assert last(1000) <= last(200) * 1.3
