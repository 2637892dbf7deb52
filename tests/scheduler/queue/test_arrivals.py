"""The cost of one event, counted in calls, does not depend on the size of the cluster."""

import pytest

from scheduler.core.pods.pod_selectors import MOST_ALIKE
from scheduler.core.values.model import (
    Expression,
    PodSelector,
    PodTerm,
    Requirements,
    Spread,
    WeightedPodTerm,
)
from tests.scheduler.state_builder import StateBuilder, requests
from tests.support.counting import calls

TERMS = (
    "required_anti_affinity",
    "required_affinity",
    "spread",
    "preferred_affinity",
    "preferred_spread",
)


def wants(kind: str, job: str) -> Requirements:
    """Return a term about the job's own pods, by a common label and a unique one."""
    labels = (Expression("app", "In", ("web",)), Expression("job", "In", (job,)))
    selector = PodSelector(labels, ("ns",))
    term = PodTerm(selector, "rack")
    terms: dict[str, object] = {
        "required_anti_affinity": {"required_anti_affinity": (term,)},
        "required_affinity": {"required_affinity": (term,)},
        "spread": {"spread": (Spread(selector, "rack"), Spread(selector, "host"))},
        "preferred_affinity": {
            "preferred_affinity": (
                WeightedPodTerm(5, term),
                WeightedPodTerm(-5, PodTerm(selector, "host")),
            )
        },
        "preferred_spread": {"preferred_spread": (Spread(selector, "rack"),)},
    }
    return Requirements(requests(1), **terms[kind])  # type: ignore[arg-type]


def arrive(builder: StateBuilder, kind: str, job: str) -> None:
    builder.pod(job, requirements=wants(kind, job), labels={"app": "web", "job": job})


@pytest.mark.parametrize("kind", TERMS)
def test_a_pod_of_a_large_gang_costs_as_much_as_one_of_a_small_one(kind: str) -> None:
    def cost(size: int) -> int:
        builder = StateBuilder()
        builder.gang("g", size)
        for _ in range(size - 1):
            arrive(builder, kind, "g")
        return calls(lambda: arrive(builder, kind, "g"))

    assert cost(500) == cost(1_500)


@pytest.mark.parametrize("kind", TERMS)
def test_a_new_job_costs_as_much_beside_many_others_as_beside_few(kind: str) -> None:
    """Each job has its own selectors; the first pod adds them, the second finds them."""

    def cost(jobs: int) -> int:
        builder = StateBuilder()
        for number in range(jobs):
            builder.gang(f"j{number}", 1)
            arrive(builder, kind, f"j{number}")
        builder.gang("new", 2)
        builder.state.take_changes()

        def come() -> None:
            arrive(builder, kind, "new")
            arrive(builder, kind, "new")

        return calls(come)

    assert cost(500) == cost(50)


def test_a_job_that_ends_costs_as_much_beside_many_others_as_beside_few() -> None:
    def cost(jobs: int) -> int:
        builder = StateBuilder()
        for number in range(jobs):
            arrive(builder, "required_anti_affinity", f"j{number}")
        uids = list(builder.state.pods)
        builder.state.take_changes()

        def end() -> None:
            builder.state.remove_pod(uids[0])
            builder.state.take_changes()

        return calls(end)

    assert cost(500) == cost(50)


ABSENT: dict[str, tuple[Expression, ...]] = {
    "another value": (Expression("app", "NotIn", ("db",)),),
    "no such label": (Expression("batch", "DoesNotExist", ()),),
    "any pod": (),
}


@pytest.mark.parametrize("expressions", ABSENT.values(), ids=list(ABSENT))
def test_selectors_without_a_label_to_look_for_cost_nothing_in_other_namespaces(
    expressions: tuple[Expression, ...],
) -> None:
    def cost(teams: int) -> int:
        builder = StateBuilder()
        for number in range(teams):
            namespace = f"team{number}"
            apart = PodTerm(PodSelector(expressions, (namespace,)), "host")
            wants = Requirements(requests(1), required_anti_affinity=(apart,))
            builder.pod(requirements=wants, namespace=namespace, labels={"app": "web"})
        builder.pod(namespace="team0", labels={"app": "web"})
        builder.state.take_changes()

        def come() -> None:
            builder.pod(namespace="team0", labels={"app": "web"})
            builder.pod(namespace="new", labels={"app": "web"})

        return calls(come)

    assert cost(500) == cost(5)


def test_selectors_without_a_label_to_look_for_cost_a_pod_of_their_namespace_at_most_so_much() -> (
    None
):
    def cost(jobs: int) -> int:
        builder = StateBuilder()
        for number in range(jobs):
            alone = (
                Expression("job", "DoesNotExist", ()),
                Expression("n", "NotIn", (f"{number}",)),
            )
            apart = PodTerm(PodSelector(alone, ("ns",)), "host")
            builder.pod(
                requirements=Requirements(requests(1), required_anti_affinity=(apart,)),
                labels={"job": f"j{number}"},
            )
        builder.state.take_changes()
        return calls(lambda: builder.pod(labels={"job": "new"}))

    assert cost(500) == cost(2 * MOST_ALIKE)


def test_a_new_selector_without_a_label_to_look_for_looks_at_no_pod_elsewhere() -> None:
    def cost(others: int) -> int:
        builder = StateBuilder()
        for _ in range(others):
            builder.pod(namespace="elsewhere", labels={"app": "web"})
        first = PodTerm(PodSelector((Expression("job", "DoesNotExist", ()),), ("team",)), "host")
        builder.pod(
            namespace="team",
            requirements=Requirements(requests(1), required_anti_affinity=(first,)),
        )
        builder.state.take_changes()
        again = PodTerm(PodSelector((Expression("job", "DoesNotExist", ()),), ("team",)), "rack")
        wants = Requirements(requests(1), required_anti_affinity=(again,))
        return calls(lambda: builder.pod(namespace="team", requirements=wants))

    assert cost(500) == cost(5)
