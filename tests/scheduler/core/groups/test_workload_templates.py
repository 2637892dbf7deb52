"""A tree of groups compared with its Workload: in any order, and never without the Workload."""

import random
from collections.abc import Callable
from dataclasses import replace
from itertools import permutations

import pytest

from scheduler.core.groups.tree_validation import check
from scheduler.core.groups.workload_templates import GroupTemplate, TemplateKey
from scheduler.core.values.model import (
    COMPOSITE_POD_GROUP,
    POD_GROUP,
    GroupKey,
    GroupSpec,
    MembershipInfo,
    PodInfo,
    Requirements,
    Topology,
)
from tests.scheduler.state_builder import StateBuilder
from tests.support.counting import calls

RACK = Topology("rack")
TEMPLATES: dict[TemplateKey, GroupTemplate] = {
    (COMPOSITE_POD_GROUP, "all"): GroupTemplate(gang=True, priority_class="high", priority=7),
    (COMPOSITE_POD_GROUP, "half"): GroupTemplate("all", gang=True, topology=RACK),
    (POD_GROUP, "worker"): GroupTemplate("half", gang=True, disruption="single"),
    (POD_GROUP, "top"): GroupTemplate(gang=False),
}
WORKLOAD = ("ns", "w")

ROOT = GroupSpec((COMPOSITE_POD_GROUP, "ns", "root"), 1, priority=7, workload="w", template="all")
HALF = GroupSpec(
    (COMPOSITE_POD_GROUP, "ns", "half"), 1, True, "root", 7, "w", RACK, template="half"
)  # fmt: skip
LEAF = GroupSpec((POD_GROUP, "ns", "leaf"), 5, True, "half", 7, "w", template="worker")


def said(builder: StateBuilder) -> str:
    while builder.state.take_changes().more:
        pass
    found = check(builder.state.forest.groups[ROOT.key])
    return f"{found.at.name} {found.message}" if found is not None else ""


@pytest.mark.parametrize("order", list(permutations(range(4))))
def test_a_tree_like_its_workload_has_no_flaw_in_any_order(order: tuple[int, ...]) -> None:
    builder = StateBuilder()
    acts = [
        lambda: builder.state.set_templates(WORKLOAD, TEMPLATES),
        *(lambda spec=spec: builder.state.set_group(spec) for spec in (ROOT, HALF, LEAF)),
    ]
    for number in order:
        acts[number]()

    assert said(builder) == ""


@pytest.mark.parametrize(
    ("spoil", "want"),
    [
        pytest.param(
            lambda: replace(LEAF, template="wroker"),
            'leaf The group names template "wroker", which workload "w" does not have in its'
            " podGroupTemplates. Correct the name, or add the template.",
            id="no such template",
        ),
        pytest.param(
            lambda: replace(HALF, template="worker"),
            'half The group names template "worker", which workload "w" does not have in its'
            " compositePodGroupTemplates. Correct the name, or add the template.",
            id="a template for another kind",
        ),
        pytest.param(
            lambda: replace(LEAF, gang=False, minimum=1),
            "leaf The schedulingPolicy of the group differs from its template"
            ' "worker" of workload "w".'
            " Recreate the group with that of the template.",
            id="another policy",
        ),
        pytest.param(
            lambda: replace(HALF, topology=Topology("zone")),
            "half The topology constraint of the group differs from its template"
            ' "half" of workload "w".'
            " Recreate the group with that of the template.",
            id="another topology key",
        ),
        pytest.param(
            lambda: replace(LEAF, disruption="all"),
            'leaf The disruptionMode of the group differs from its template "worker"'
            ' of workload "w".'
            " Recreate the group with that of the template.",
            id="another disruption mode",
        ),
        pytest.param(
            lambda: replace(ROOT, priority_class="low"),
            'root The priorityClassName of the group differs from its template "all"'
            ' of workload "w".'
            " Recreate the group with that of the template.",
            id="another priority class",
        ),
        pytest.param(
            lambda: replace(LEAF, parent="root"),
            'leaf The parent "root" is of template "all", but workload "w" has the'
            " template of the group under"
            ' "half". Correct the parent.',
            id="another parent",
        ),
        pytest.param(
            lambda: replace(LEAF, template="top", gang=False, minimum=1),
            'leaf The parent "half" is of template "half", but workload "w" has the'
            " template of the group at the"
            " top. Correct the parent.",
            id="a root template below a parent",
        ),
    ],
)
@pytest.mark.parametrize("workload_first", [True, False])
def test_a_contradiction_is_the_trees_flaw(
    spoil: Callable[[], GroupSpec], want: str, *, workload_first: bool
) -> None:
    builder = StateBuilder()
    specs = {spec.key: spec for spec in (ROOT, HALF, LEAF)}
    spoilt = spoil()
    specs[spoilt.key] = spoilt
    if workload_first:
        builder.state.set_templates(WORKLOAD, TEMPLATES)
    for spec in specs.values():
        builder.state.set_group(spec)
    before = said(builder)
    builder.state.set_templates(WORKLOAD, TEMPLATES)
    found = said(builder)
    builder.state.set_templates(WORKLOAD, None)

    assert before == (want if workload_first else "")
    assert found == want
    assert said(builder) == "", "without the Workload nothing is said"


def test_what_the_template_leaves_unset_and_the_minimum_may_differ() -> None:
    builder = StateBuilder()
    builder.state.set_templates(WORKLOAD, TEMPLATES)
    for spec in (ROOT, replace(HALF, minimum=2), replace(LEAF, topology=RACK, minimum=99)):
        builder.state.set_group(spec)

    assert said(builder) == ""


def test_a_group_that_waits_for_its_policy_is_told_that_its_template_does_not_exist() -> None:
    builder = StateBuilder()
    builder.state.set_templates(WORKLOAD, TEMPLATES)
    builder.state.set_group(
        GroupSpec((POD_GROUP, "ns", "solo"), None, workload="w", template="none")
    )
    found = check(builder.state.forest.groups[POD_GROUP, "ns", "solo"])

    assert found is not None
    assert found.message.startswith('The group names template "none"')


def test_a_template_that_is_added_puts_its_groups_right() -> None:
    builder = StateBuilder()
    without = {key: value for key, value in TEMPLATES.items() if key[1] != "worker"}
    builder.state.set_templates(WORKLOAD, without)
    for spec in (ROOT, HALF, LEAF):
        builder.state.set_group(spec)
    before = said(builder)
    builder.state.set_templates(WORKLOAD, TEMPLATES)

    assert before.startswith("leaf The group names template")
    assert said(builder) == ""


def test_a_workload_that_comes_and_goes_costs_one_slice_however_many_groups_name_it() -> None:
    def cost(width: int) -> int:
        builder = StateBuilder()
        for number in range(width):
            key = (POD_GROUP, "ns", f"g{number}")
            builder.state.set_group(GroupSpec(key, 1, workload="w", template="worker"))
        builder.state.take_changes()

        def flip() -> None:
            for templates in (TEMPLATES, None) * 3:
                builder.state.set_templates(WORKLOAD, templates)
                builder.state.take_changes()

        return calls(flip)

    assert cost(4_000) == cost(1_000)


def test_a_workload_concerns_only_the_missing_groups_that_name_it() -> None:
    builder = StateBuilder()
    named = MembershipInfo(workload="w")
    for number in range(100):
        info = PodInfo(f"u{number}", "ns", f"p{number}", Requirements(), group=f"g{number}")
        builder.state.set_pod(replace(info, membership=named))
    changed(builder)
    for number in range(100):
        builder.state.set_templates(("ns", f"other-{number}"), TEMPLATES)

    assert not changed(builder)
    builder.state.set_templates(WORKLOAD, TEMPLATES)
    assert changed(builder) == {(POD_GROUP, "ns", f"g{number}") for number in range(100)}


def changed(builder: StateBuilder) -> set[GroupKey]:
    found, more = set[GroupKey](), True
    while more:
        changes = builder.state.take_changes()
        found, more = found | changes.entities, changes.more
    return found


def test_nothing_is_kept_of_workloads_and_groups_that_are_gone() -> None:
    builder, chance = StateBuilder(), random.Random(1)
    named = PodInfo("u", "ns", "p", Requirements(), group=LEAF.key[2])
    builder.state.set_pod(replace(named, membership=MembershipInfo(workload="w1")))
    for _ in range(200):
        name = f"w{chance.randrange(5)}"
        if chance.random() < 0.5:
            templates = chance.choice([None, TEMPLATES])
            builder.state.set_templates(("ns", name), templates)
        else:
            builder.state.set_group(replace(LEAF, workload=name, parent=None))
    builder.state.remove_group(LEAF.key)
    builder.state.remove_pod("u")
    for number in range(5):
        builder.state.set_templates(("ns", f"w{number}"), None)

    assert said_nothing(builder)


def said_nothing(builder: StateBuilder) -> bool:
    while builder.state.take_changes().more:
        pass
    forest = builder.state.forest
    return not forest.templates and not forest.groups and not forest._made_from
