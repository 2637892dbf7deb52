"""The messages of a group that lacks members: their number, their creator, or the fix."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from api.constants import (
    JOBSET_LABEL_NAME,
    LABEL_COSCHEDULING,
    LABEL_POD_GROUP,
    LABEL_TEMPLATE,
    LABEL_WORKLOAD,
    LWS_LABEL_NAME,
)
from api.features import USUAL, Feature, FeatureGates
from scheduler.core.groups.workload_templates import GroupTemplate
from scheduler.core.values.model import COMPOSITE_POD_GROUP, POD_GROUP, MembershipInfo, PodInfo
from scheduler.status.conditions import waiting_for
from tests.scheduler.state_builder import StateBuilder

JOB, JOBSET = ("Job", "t"), ("JobSet", "a")
Make = Callable[[StateBuilder], object]


def gang(builder: StateBuilder, owner: tuple[str, str] | None = None, template: str = "") -> None:
    """Create a gang of two."""
    builder.gang("g", 2)
    spec = builder.state.forest.groups[POD_GROUP, "ns", "g"].spec
    assert spec is not None
    builder.state.set_group(replace(spec, owner=owner, template=template))


def member(builder: StateBuilder, **fields: object) -> PodInfo:
    info = replace(builder.pod("g"), **fields)  # type: ignore[arg-type]
    builder.state.set_pod(info)
    return info


def ran_before(builder: StateBuilder) -> None:
    """Place its pods, and delete them."""
    builder.nodes(1)
    pods = [builder.pod("g", node="n0") for _ in range(2)]
    for pod in pods:
        builder.state.remove_pod(pod.uid)


def said(
    builder: StateBuilder, kind: str = POD_GROUP, name: str = "g", gates: FeatureGates = USUAL
) -> str:
    blocker = waiting_for(builder.state, builder.state.forest.groups[kind, "ns", name], gates)
    assert blocker is not None
    assert blocker.kind == "quorum"
    return blocker.summary


@pytest.mark.parametrize(
    ("owner", "make", "want"),
    [
        pytest.param(
            JOB,
            lambda _: None,
            'The group has 0 of 2 pods; none exists yet. If Job "t" creates no pods, see its'
            " status and events.",
            id="a Job that has made none",
        ),
        pytest.param(
            JOB,
            member,
            'The group has 1 of 2 pods. If Job "t" creates no more pods, see its status and'
            " events.",
            id="a Job that was stopped by a quota",
        ),
        pytest.param(
            JOB,
            ran_before,
            'The group has 0 of 2 pods; its earlier pods are deleted. If Job "t" creates no'
            " more pods, see its status and events.",
            id="a Job whose pods are gone",
        ),
        pytest.param(
            JOB,
            lambda builder: [
                member(builder, terminating=True, node="n"),
                member(builder, phase="Failed", node="n", membership=MembershipInfo(bound_at="1")),
            ],
            "The group has 0 of 2 pods, not counting 1 being deleted and 1 failed. If Job"
            ' "t" creates no more pods, see its status and events.',
            id="a Job whose pods are evicted and fail",
        ),
        pytest.param(
            JOBSET,
            lambda _: None,
            'The group has 0 of 2 pods; none exists yet. JobSet "a" creates the Jobs in its'
            " startup order; if the Jobs exist, see their events.",
            id="a JobSet with an order",
        ),
        pytest.param(
            JOBSET,
            ran_before,
            'The group has 0 of 2 pods; its earlier pods are deleted. JobSet "a" creates'
            " them again if it restarts; see its status if it has ended.",
            id="a JobSet that restarts",
        ),
        pytest.param(
            JOBSET,
            member,
            'The group has 1 of 2 pods. If no more pods appear, see the status of JobSet "a"'
            " and the events of its Jobs.",
            id="a JobSet that was stopped by a quota",
        ),
        pytest.param(
            None,
            lambda _: None,
            "The group has 0 of 2 pods; none exists yet. Create 2 more pods that name the"
            " group, or lower minCount.",
            id="a user's own group",
        ),
        pytest.param(
            None,
            lambda builder: member(builder, membership=MembershipInfo(maker='StatefulSet "s"')),
            'The group has 1 of 2 pods. If StatefulSet "s" creates no more pods, see its'
            " status and events, or lower minCount.",
            id="a maker of which Muster knows nothing",
        ),
        pytest.param(
            ("Pod", "g"),
            lambda builder: member(builder, membership=MembershipInfo(maker='RayCluster "r"')),
            'The group has 1 of 2 pods. If RayCluster "r" creates no more pods, see its'
            " status and events, or lower minCount with the min-count annotation of its pods.",
            id="a maker that is content with fewer pods than these say",
        ),
        pytest.param(
            ("Workload", "w"),
            lambda builder: member(builder, membership=MembershipInfo(maker='Workflow "f"')),
            'The group has 1 of 2 pods. If Workflow "f" creates no more pods, see its status'
            ' and events, or lower minCount of template "workers" of Workload "w".',
            id="a maker of the pods of a template",
        ),
        pytest.param(
            ("Pod", "g"),
            member,
            "The group has 1 of 2 pods. Create 1 more pod that names the group, or lower"
            " minCount with the min-count annotation of its pods.",
            id="made from its pods",
        ),
        pytest.param(
            ("PodGroup", "x"),
            member,
            "The group has 1 of 2 pods. Create 1 more pod that names the group, or lower"
            ' minMember of coscheduling PodGroup "x".',
            id="KEP-3370",
        ),
        pytest.param(
            ("Workload", "w"),
            member,
            "The group has 1 of 2 pods. Create 1 more pod that names the group, or lower"
            ' minCount of template "workers" of Workload "w".',
            id="KEP-4671",
        ),
        pytest.param(
            JOB,
            lambda builder: [member(builder), member(builder, gated=True)],
            "The group has 1 of 2 pods, not counting 1 with schedulingGates. It is scheduled"
            " when their schedulingGates are removed.",
            id="scheduling gates",
        ),
        pytest.param(
            JOB,
            lambda builder: member(builder, gated=True),
            'The group has 0 of 2 pods, not counting 1 with schedulingGates. If Job "t"'
            " creates no pods, see its status and events.",
            id="gates are not all",
        ),
        pytest.param(
            ("LeaderWorkerSet", "a"),
            member,
            'The group has 1 of 2 pods. If LeaderWorkerSet "a" creates no more pods, see its'
            " status and events.",
            id="a replica",
        ),
        pytest.param(
            None,
            lambda builder: member(builder, membership=MembershipInfo(held=True)),
            "The group has 0 of 2 pods, not counting 1 of another owner. The pods belong to"
            " a group that Muster creates under this name: delete this group.",
            id="a name that Muster needs",
        ),
        pytest.param(
            JOB,
            lambda builder: member(builder, membership=MembershipInfo(held=True)),
            "The group has 0 of 2 pods, not counting 1 of another owner. The pods wait until"
            " this group is deleted and Muster creates that of their owner.",
            id="a group of an earlier owner",
        ),
    ],
)
def test_a_gang_says_what_is_there_and_who_makes_the_rest(
    owner: tuple[str, str] | None, make: Make, want: str
) -> None:
    builder = StateBuilder()
    gang(builder, owner, "workers")
    make(builder)

    assert said(builder) == want


def test_a_basic_group_waits_for_any_pod() -> None:
    builder = StateBuilder()
    builder.gang("g", 1, gang=False)

    assert said(builder) == (
        "The group has no pods; none exists yet. Create a pod that names the group, or delete the"
        " group."
    )


@pytest.mark.parametrize(
    ("fields", "want"),
    [
        ({}, "create it, or correct the name in its pods"),
        (
            {"membership": MembershipInfo(maker='Job "t"', managed=True)},
            'Muster creates it for Job "t"; if it does not appear, see the events of its owner',
        ),
        (
            {"membership": MembershipInfo(maker='StatefulSet "db"', managed=True)},
            (
                'Muster creates it for StatefulSet "db"; if it does not appear, see the events'
                " of its owner"
            ),
        ),
        (
            {"membership": MembershipInfo(maker='ReplicaSet "w"', managed=True)},
            (
                'Muster creates it for the Deployment of ReplicaSet "w"; if it does not appear,'
                " see the events of its owner"
            ),
        ),
        (
            {
                "labels": {JOBSET_LABEL_NAME: "a"},
                "membership": MembershipInfo(maker='Job "a-w-0"', managed=True),
            },
            'Muster creates it for JobSet "a"; if it does not appear, see the events of its owner',
        ),
        (
            {"labels": {LABEL_POD_GROUP: "serve", LWS_LABEL_NAME: "serve"}},
            (
                'Muster creates it for LeaderWorkerSet "serve"; if it does not appear, see the'
                " events of its owner"
            ),
        ),
        (
            {"labels": {LABEL_POD_GROUP: "mine", LWS_LABEL_NAME: "serve"}},
            "create it, or correct the name in its pods",
        ),
        (
            {"labels": {LABEL_POD_GROUP: "g"}, "membership": MembershipInfo(asks=True)},
            "Muster creates it from pod annotations; if it does not appear, see the pods' events",
        ),
        (
            {
                "labels": {LABEL_POD_GROUP: "g"},
                "membership": MembershipInfo(maker='Job "t"'),
            },
            "create it, or correct the name in its pods",
        ),
        (
            {"labels": {LABEL_COSCHEDULING: "g"}},
            'it is created from coscheduling PodGroup "g": create that, or correct the name',
        ),
    ],
)
def test_of_a_group_that_does_not_exist_it_is_said_who_makes_it(
    fields: dict[str, object], want: str
) -> None:
    builder = StateBuilder()
    member(builder, **fields)

    assert said(builder) == f'PodGroup "g" does not exist. {want[0].upper()}{want[1:]}.'


@pytest.mark.parametrize(
    ("off", "fields"),
    [
        (Feature.JOB, {"membership": MembershipInfo(managed=True, maker='Job "t"')}),
        (
            Feature.JOBSET,
            {"membership": MembershipInfo(managed=True), "labels": {JOBSET_LABEL_NAME: "a"}},
        ),
        (
            Feature.STATEFUL_SET,
            {"membership": MembershipInfo(managed=True, maker='StatefulSet "db"')},
        ),
        (
            Feature.DEPLOYMENT,
            {"membership": MembershipInfo(managed=True, maker='ReplicaSet "web-1"')},
        ),
        (
            Feature.LEADER_WORKER_SET,
            {"labels": {LABEL_POD_GROUP: "serve", LWS_LABEL_NAME: "serve"}},
        ),
        (Feature.COSCHEDULING, {"labels": {LABEL_COSCHEDULING: "g"}}),
        (Feature.POD_GROUPS_FROM_PODS, {"membership": MembershipInfo(asks=True)}),
    ],
)
def test_of_a_group_that_is_not_made_the_gate_is_named(
    off: Feature, fields: dict[str, object]
) -> None:
    builder = StateBuilder()
    member(builder, **fields)

    assert said(builder, gates=USUAL.without(off)) == (
        f'PodGroup "g" does not exist. Muster does not create it because feature gate {off} is off.'
    )
    assert "feature gate" not in said(
        builder, gates=FeatureGates(frozenset({off, Feature.POD_GROUP}))
    )


def test_a_users_own_group_is_missed_while_it_can_be_created() -> None:
    builder = StateBuilder()
    member(builder, labels={LABEL_POD_GROUP: "g"})

    assert "Create it" in said(builder, gates=FeatureGates(frozenset({Feature.POD_GROUP})))
    off = "It cannot be created because feature gate GenericWorkloadPodGroup is off."
    assert said(builder, gates=USUAL.without(Feature.POD_GROUP)).endswith(off)


def test_of_a_group_named_by_its_template_it_is_said_which() -> None:
    builder = StateBuilder()
    builder.pod("w-g", labels={LABEL_WORKLOAD: "w", LABEL_TEMPLATE: "g"})

    assert said(builder, name="w-g") == (
        'PodGroup "w-g" does not exist. It is created from template "g" of Workload "w", which'
        " does not exist: create it, or correct the labels."
    )

    builder.state.set_templates(("ns", "w"), {("PodGroup", "g"): GroupTemplate(below="tree")})
    assert said(builder, name="w-g") == (
        'PodGroup "w-g" does not exist. Workload "w" has no template "g" in its podGroupTemplates:'
        " add it, or correct the label."
    )

    builder.state.set_templates(("ns", "w"), {("PodGroup", "g"): GroupTemplate()})
    assert said(builder, name="w-g") == (
        'PodGroup "w-g" does not exist. Muster creates it from template "g" of Workload "w"; if it'
        " does not appear, see its events."
    )


@pytest.mark.parametrize(
    ("owner", "want"),
    [
        (
            JOBSET,
            'Muster creates it for JobSet "a"; if it does not appear, see the events of its owner',
        ),
        (
            ("LeaderWorkerSet", "a"),
            (
                'Muster creates it for LeaderWorkerSet "a"; if it does not appear, see the'
                " events of its owner"
            ),
        ),
        (JOB, "create it, or correct the name in its child groups"),
        (None, "create it, or correct the name in its child groups"),
    ],
)
def test_of_a_parent_that_does_not_exist_it_is_said_who_makes_it(
    owner: tuple[str, str] | None, want: str
) -> None:
    builder = StateBuilder()
    builder.gang("g", 1, parent="root")
    spec = builder.state.forest.groups[POD_GROUP, "ns", "g"].spec
    assert spec is not None
    builder.state.set_group(replace(spec, owner=owner))

    told = said(builder, COMPOSITE_POD_GROUP, "root")

    assert told == f'CompositePodGroup "root" does not exist. {want[0].upper()}{want[1:]}.'


@pytest.mark.parametrize(
    ("owner", "want"),
    [
        (JOBSET, 'Muster creates the others for JobSet "a"; if they do not appear, see its events'),
        (None, "create the others, or lower minGroupCount"),
    ],
)
def test_a_composite_that_lacks_children_says_who_makes_them(
    owner: tuple[str, str] | None, want: str
) -> None:
    builder = StateBuilder()
    builder.gang("root", 2, composite=True)
    spec = builder.state.forest.groups[COMPOSITE_POD_GROUP, "ns", "root"].spec
    assert spec is not None
    builder.state.set_group(replace(spec, owner=owner))
    builder.gang("g", 1, parent="root")
    builder.pod("g")

    assert (
        said(builder, COMPOSITE_POD_GROUP, "root")
        == f"The group has 1 of 2 child groups. {want[0].upper()}{want[1:]}."
    )
