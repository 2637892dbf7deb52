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
            'has 0 of 2 pods, none is there yet: if Job "t" makes none, its status and events'
            " say why",
            id="a Job that has made none",
        ),
        pytest.param(
            JOB,
            member,
            'has 1 of 2 pods: if Job "t" makes no others, its status and events say why',
            id="a Job that was stopped by a quota",
        ),
        pytest.param(
            JOB,
            ran_before,
            "has 0 of 2 pods, those that ran are gone: "
            'if Job "t" makes no others, its status and events say why',
            id="a Job whose pods are gone",
        ),
        pytest.param(
            JOB,
            lambda builder: [
                member(builder, terminating=True, node="n"),
                member(builder, phase="Failed", node="n", membership=MembershipInfo(bound_at="1")),
            ],
            "has 0 of 2 pods, besides 1 being deleted and 1 failed: "
            'if Job "t" makes no others, its status and events say why',
            id="a Job whose pods are evicted and fail",
        ),
        pytest.param(
            JOBSET,
            lambda _: None,
            'has 0 of 2 pods, none is there yet: JobSet "a" makes their Jobs when it is their turn;'
            " if these are there, their events say why no pods come",
            id="a JobSet with an order",
        ),
        pytest.param(
            JOBSET,
            ran_before,
            'has 0 of 2 pods, those that ran are gone: JobSet "a" makes their Jobs again when it is'
            " their turn, unless it has ended",
            id="a JobSet that restarts",
        ),
        pytest.param(
            JOBSET,
            member,
            'has 1 of 2 pods: if no others come, the status of JobSet "a" and the events of its'
            " Jobs say why",
            id="a JobSet that was stopped by a quota",
        ),
        pytest.param(
            None,
            lambda _: None,
            "has 0 of 2 pods, none is there yet: make 2 more that name it, or lower minCount",
            id="a user's own group",
        ),
        pytest.param(
            None,
            lambda builder: member(builder, membership=MembershipInfo(maker='StatefulSet "s"')),
            'has 1 of 2 pods: if StatefulSet "s" makes no others, as its status and events may say,'
            " lower minCount",
            id="a maker of which Muster knows nothing",
        ),
        pytest.param(
            ("Pod", "g"),
            lambda builder: member(builder, membership=MembershipInfo(maker='RayCluster "r"')),
            'has 1 of 2 pods: if RayCluster "r" makes no others, as its status and events may say,'
            " lower the min-count that its pods say",
            id="a maker that is content with fewer pods than these say",
        ),
        pytest.param(
            ("Workload", "w"),
            lambda builder: member(builder, membership=MembershipInfo(maker='Workflow "f"')),
            'has 1 of 2 pods: if Workflow "f" makes no others, as its status and events may say,'
            ' lower minCount of template "workers" of Workload "w"',
            id="a maker of the pods of a template",
        ),
        pytest.param(
            ("Pod", "g"),
            member,
            "has 1 of 2 pods: make 1 more that name it, or lower the min-count that its pods say",
            id="made from its pods",
        ),
        pytest.param(
            ("PodGroup", "x"),
            member,
            "has 1 of 2 pods: make 1 more that name it, or lower minMember of"
            ' coscheduling PodGroup "x"',
            id="KEP-3370",
        ),
        pytest.param(
            ("Workload", "w"),
            member,
            "has 1 of 2 pods: make 1 more that name it, or lower minCount of template"
            ' "workers" of Workload "w"',
            id="KEP-4671",
        ),
        pytest.param(
            JOB,
            lambda builder: [member(builder), member(builder, gated=True)],
            "has 1 of 2 pods, besides 1 with schedulingGates: it goes on when their gates are"
            " removed",
            id="scheduling gates",
        ),
        pytest.param(
            JOB,
            lambda builder: member(builder, gated=True),
            "has 0 of 2 pods, besides 1 with schedulingGates: "
            'if Job "t" makes none, its status and events say why',
            id="gates are not all",
        ),
        pytest.param(
            ("LeaderWorkerSet", "a"),
            member,
            'has 1 of 2 pods: if LeaderWorkerSet "a" makes no others, its status and events say'
            " why",
            id="a replica",
        ),
        pytest.param(
            None,
            lambda builder: member(builder, gated=True, membership=MembershipInfo(held=True)),
            "has 0 of 2 pods, besides 1 held: those are meant for a group that Muster makes under"
            " this name: delete this one",
            id="a name that Muster needs",
        ),
        pytest.param(
            JOB,
            lambda builder: member(builder, gated=True, membership=MembershipInfo(held=True)),
            "has 0 of 2 pods, besides 1 held: those are of another owner, and go on once this"
            " group is gone and theirs is made",
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

    assert said(builder) == "has no pods, none is there yet: make 1 that names it, or delete it"


@pytest.mark.parametrize(
    ("fields", "want"),
    [
        ({}, "create it, or correct the name that its pods give"),
        (
            {"membership": MembershipInfo(maker='Job "t"', managed=True)},
            'Muster makes it for Job "t", whose events say if it cannot',
        ),
        (
            {"membership": MembershipInfo(maker='StatefulSet "db"', managed=True)},
            'Muster makes it for StatefulSet "db", whose events say if it cannot',
        ),
        (
            {"membership": MembershipInfo(maker='ReplicaSet "w"', managed=True)},
            'Muster makes it for the Deployment of ReplicaSet "w", whose events say if it cannot',
        ),
        (
            {
                "labels": {JOBSET_LABEL_NAME: "a"},
                "membership": MembershipInfo(maker='Job "a-w-0"', managed=True),
            },
            'Muster makes it for JobSet "a", whose events say if it cannot',
        ),
        (
            {"labels": {LABEL_POD_GROUP: "serve", LWS_LABEL_NAME: "serve"}},
            'Muster makes it for LeaderWorkerSet "serve", whose events say if it cannot',
        ),
        (
            {"labels": {LABEL_POD_GROUP: "mine", LWS_LABEL_NAME: "serve"}},
            "create it, or correct the name that its pods give",
        ),
        (
            {"labels": {LABEL_POD_GROUP: "g"}, "membership": MembershipInfo(asks=True)},
            "Muster makes it as the annotations of its pods say, whose events say if it cannot",
        ),
        (
            {
                "labels": {LABEL_POD_GROUP: "g"},
                "membership": MembershipInfo(maker='Job "t"'),
            },
            "create it, or correct the name that its pods give",
        ),
        (
            {"labels": {LABEL_COSCHEDULING: "g"}},
            'it is made from coscheduling PodGroup "g": create that, or correct the name',
        ),
    ],
)
def test_of_a_group_that_does_not_exist_it_is_said_who_makes_it(
    fields: dict[str, object], want: str
) -> None:
    builder = StateBuilder()
    member(builder, **fields)

    assert said(builder) == f'pod group "g" does not exist: {want}'


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
        f'pod group "g" does not exist: it is not made, as feature gate {off} is off'
    )
    assert "feature gate" not in said(builder, gates=FeatureGates(frozenset({off})))


def test_a_users_own_group_is_missed_whatever_is_off() -> None:
    builder = StateBuilder()
    member(builder, labels={LABEL_POD_GROUP: "g"})

    assert "create it" in said(builder, gates=FeatureGates(frozenset()))


def test_of_a_group_named_by_its_template_it_is_said_which() -> None:
    builder = StateBuilder()
    builder.pod("w-g", labels={LABEL_WORKLOAD: "w", LABEL_TEMPLATE: "g"})

    assert said(builder, name="w-g") == (
        'pod group "w-g" does not exist: it is made from template "g" of Workload "w":'
        " create those, or correct the labels"
    )


@pytest.mark.parametrize(
    ("owner", "want"),
    [
        (JOBSET, 'Muster makes it for JobSet "a", whose events say if it cannot'),
        (
            ("LeaderWorkerSet", "a"),
            'Muster makes it for LeaderWorkerSet "a", whose events say if it cannot',
        ),
        (JOB, "create it, or correct the name that its child groups give"),
        (None, "create it, or correct the name that its child groups give"),
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

    assert told == f'composite pod group "root" does not exist: {want}'


@pytest.mark.parametrize(
    ("owner", "want"),
    [
        (JOBSET, 'Muster makes the others for JobSet "a", whose events say if it cannot'),
        (None, "make the others, or lower minGroupCount"),
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

    assert said(builder, COMPOSITE_POD_GROUP, "root") == f"has 1 of 2 child groups: {want}"
