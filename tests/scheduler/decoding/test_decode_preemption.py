"""The inputs of preemption: policies, delays, conditions, ends of grace periods, budgets."""

from datetime import UTC, datetime

import msgspec
import pytest

from api.eviction import preempted_condition
from scheduler.core.values.model import POD_GROUP, Expression, PodInfo
from scheduler.decoding import decode
from scheduler.decoding.objects import decode_budget, decode_group, decode_pod

DELAY = "scheduling.muster.dev/preemption-delay"


def pod(*, meta: dict[str, object] | None = None, spec: dict[str, object] | None = None,
        status: dict[str, object] | None = None) -> PodInfo:  # fmt: skip
    body = {
        "metadata": {"name": "p", "namespace": "ns", "uid": "u"} | (meta or {}),
        "spec": spec or {},
        "status": status or {},
    }
    return decode.pod_info(decode_pod(msgspec.json.encode(body)))


@pytest.mark.parametrize(
    ("policy", "preempts"), [("", True), ("PreemptLowerPriority", True), ("Never", False)]
)
def test_only_never_keeps_a_pod_and_a_group_from_preempting(policy: str, preempts: bool) -> None:
    group = {"metadata": {"name": "g", "namespace": "ns"}, "spec": {"preemptionPolicy": policy}}
    spec = decode.group_spec(POD_GROUP, decode_group(msgspec.json.encode(group)))

    assert pod(spec={"preemptionPolicy": policy}).preemption.preempts is preempts
    assert spec.preempts is preempts


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90s", 90), ("5m", 300), ("1h", 3600), ("", 0), ("soon", 0), ("-5s", 0), ("1.5m", 0)],
)
def test_the_delay_is_a_number_with_a_unit(text: str, seconds: float) -> None:
    assert pod(meta={"annotations": {DELAY: text}}).preemption.delay == seconds


@pytest.mark.parametrize(("spec", "seconds"), [({}, 0), ({"activeDeadlineSeconds": 90}, 90)])
def test_the_deadline_of_a_pod(spec: dict[str, object], seconds: float) -> None:
    assert pod(spec=spec).preemption.deadline == seconds


@pytest.mark.parametrize(
    ("text", "asked"), [("90s", 90), ("0s", 0), ("1h", 3600), ("", None), ("for ever", None)]
)
def test_pods_and_groups_ask_how_long_they_run_before_they_are_evicted(
    text: str, asked: float | None
) -> None:
    notes = {"scheduling.muster.dev/min-run-time": text}
    group = {"metadata": {"name": "g", "namespace": "n", "annotations": notes}}
    spec = decode.group_spec(POD_GROUP, decode_group(msgspec.json.encode(group)))

    assert pod(meta={"annotations": notes}).preemption.min_run == asked
    assert spec.min_run == asked


@pytest.mark.parametrize(
    ("written", "cost"), [("7", 7), ("-7", -7), ("", 0), ("much", 0), ("9999999999", 0)]
)
def test_pods_and_groups_report_a_cost(written: str, cost: int) -> None:
    notes = {"scheduling.muster.dev/eviction-cost": written}
    group = {"metadata": {"name": "g", "namespace": "n", "annotations": notes}}
    spec = decode.group_spec(POD_GROUP, decode_group(msgspec.json.encode(group)))

    assert pod(meta={"annotations": notes}).preemption.eviction_cost == cost
    assert spec.eviction_cost == cost


@pytest.mark.parametrize(
    ("written", "movable"), [("true", True), ("false", False), ("yes", None), ("", None)]
)
def test_a_group_may_agree_to_be_moved(written: str, movable: bool | None) -> None:
    notes = {
        "scheduling.muster.dev/movable": written,
        "scheduling.muster.dev/defragment-until": "1970-01-01T00:01:00Z",
    }
    group = {"metadata": {"name": "g", "namespace": "n", "annotations": notes}}
    spec = decode.group_spec(POD_GROUP, decode_group(msgspec.json.encode(group)))

    assert spec.movable is movable
    assert spec.defragment_until == 60


@pytest.mark.parametrize(
    ("written", "moment"),
    [("1970-01-01T00:01:00Z", 60), ("1970-01-01T00:01:00", 0), ("", 0), ("now", 0)],
)
def test_pods_and_groups_report_their_last_checkpoint(written: str, moment: float) -> None:
    notes = {"scheduling.muster.dev/last-checkpoint": written}
    group = {"metadata": {"name": "g", "namespace": "n", "annotations": notes}}
    spec = decode.group_spec(POD_GROUP, decode_group(msgspec.json.encode(group)))

    assert pod(meta={"annotations": notes}).preemption.checkpoint == moment
    assert spec.checkpoint == moment


def test_the_status_of_a_root_counts_its_preemptions() -> None:
    now = datetime(1970, 1, 1, 0, 1, tzinfo=UTC)
    status: dict[str, object] = {}
    for _ in range(2):
        condition, _number = preempted_condition(status, now, 3600, 1)
        status = {"conditions": [condition]}
    group = {"metadata": {"name": "g", "namespace": "n"}, "status": status}

    spec = decode.group_spec(POD_GROUP, decode_group(msgspec.json.encode(group)))

    assert spec.preempted == (2, 60.0)


def test_a_root_says_how_long_its_bindings_may_take() -> None:
    notes = {"scheduling.muster.dev/schedule-timeout": "60s"}
    group = {"metadata": {"name": "g", "namespace": "n", "annotations": notes}}

    spec = decode.group_spec(POD_GROUP, decode_group(msgspec.json.encode(group)))

    assert spec.bind_within == 60


@pytest.mark.parametrize(
    ("message", "status", "ours"),
    [
        ("muster-scheduler: preempted for PodGroup ns/g", "True", True),
        ("default-scheduler: preempting to accommodate a higher priority pod", "True", False),
        ("muster-scheduler: preempted for PodGroup ns/g", "False", False),
    ],
)
def test_only_our_own_mark_makes_a_pod_a_victim(message: str, status: str, ours: bool) -> None:
    mark = {"type": "DisruptionTarget", "status": status, "message": message}

    found = pod(status={"conditions": [mark]}).preemption

    assert found.targeted is ours
    assert found.target_says == (message if ours else "")


def test_only_so_much_of_a_mark_is_kept() -> None:
    said = "muster-scheduler: " + "x" * 9999
    mark = {"type": "DisruptionTarget", "status": "True", "message": said}

    assert pod(status={"conditions": [mark]}).preemption.target_says == said[:1024]


def test_start_and_end_of_grace_are_seconds() -> None:
    info = pod(
        meta={"deletionTimestamp": "1970-01-01T00:02:00Z"},
        status={"startTime": "1970-01-01T00:01:00Z"},
    )

    assert (info.started, info.preemption.leaves_by, info.terminating) == (60.0, 120.0, True)


@pytest.mark.parametrize(
    ("selector", "expressions"),
    [
        ({"matchLabels": {"app": "a"}}, (Expression("app", "In", ("a",)),)),
        ({}, ()),
        (None, None),
    ],
)
def test_a_budgets_selector(selector: object, expressions: object) -> None:
    body = {
        "metadata": {"name": "b", "namespace": "ns"},
        "spec": {"selector": selector},
        "status": {"disruptionsAllowed": 2},
    }
    budget = decode.disruption_budget(decode_budget(msgspec.json.encode(body)))

    assert (budget.key, budget.expressions, budget.allowed) == (("ns", "b"), expressions, 2)


@pytest.mark.parametrize(("written", "grace"), [(None, 30.0), (0, 0.0), (31_536_000, 31_536_000.0)])
def test_the_grace_period_is_the_pods_or_the_default(written: int | None, grace: float) -> None:
    spec: dict[str, object] = (
        {"terminationGracePeriodSeconds": written} if written is not None else {}
    )

    assert repr(pod(spec=spec).preemption.grace) == repr(
        grace
    )  # a snapshot is the same after it was read


def test_what_another_scheduler_nominated_is_read() -> None:
    assert pod(status={"nominatedNodeName": "n1"}).nominated == "n1"
    assert pod().nominated == ""


def owned(version: str, kind: str, *, controller: bool = True) -> dict[str, object]:
    owner = {"apiVersion": version, "kind": kind, "name": "o", "uid": "uid-o"}
    return {"ownerReferences": [owner | {"controller": controller}]}


@pytest.mark.parametrize(
    ("meta", "daemon_set"),
    [
        pytest.param(owned("apps/v1", "DaemonSet"), "uid-o", id="its DaemonSet"),
        pytest.param(owned("apps/v1", "DaemonSet", controller=False), "", id="not its controller"),
        pytest.param(owned("example.com/v1", "DaemonSet"), "", id="a kind of the same name"),
        pytest.param(owned("apps/v1", "ReplicaSet"), "", id="another kind"),
    ],
)
def test_a_pod_of_a_daemon_set_names_it_as_its_controller(
    meta: dict[str, object], daemon_set: str
) -> None:
    assert pod(meta=meta).preemption.daemon_set == daemon_set


def test_a_mirror_pod_has_the_annotation_and_belongs_to_a_node() -> None:
    note: dict[str, object] = {"annotations": {"kubernetes.io/config.mirror": "hash"}}

    assert pod(meta=note | owned("v1", "Node")).preemption.mirror_of == "uid-o"
    assert pod(meta=note).preemption.mirror_of == ""
    assert pod(meta=owned("v1", "Node")).preemption.mirror_of == ""


def test_pods_that_say_nothing_of_preemption_share_one_value() -> None:
    """Most pods are such: separate values would add memory to every pod."""
    usual = pod(
        spec={"terminationGracePeriodSeconds": 30, "preemptionPolicy": "PreemptLowerPriority"}
    ).preemption

    assert usual is pod().preemption
    assert pod(spec={"terminationGracePeriodSeconds": 31}).preemption is not usual


@pytest.mark.parametrize(
    ("moment", "want"),
    [
        ("2026-01-01T00:00:00Z", 1767225600.0),
        ("12026-01-01T00:00:00Z", decode.FAR_AWAY),
        ("292277026-12-04T15:30:07Z", decode.FAR_AWAY),
    ],
)
def test_a_pod_may_be_deleted_with_any_grace_period(moment: str, want: float) -> None:
    """An API server writes years of more than four digits."""
    assert pod(meta={"deletionTimestamp": moment}).preemption.leaves_by == want


@pytest.mark.parametrize(
    ("said", "want"),
    [
        (None, None),
        ("2026-01-01T00:00:00Z", 1767225600.0),
        ("Failed", -decode.FAR_AWAY),
        ("", None),
        ("soon", None),
        ("0001-01-01T00:00:00Z", None),
        ("0001-01-01", None),
        ("99999-01-01T00:00:00Z", None),
    ],
)
def test_when_capacity_was_requested(said: str | None, want: float | None) -> None:
    notes = {} if said is None else {"scheduling.muster.dev/capacity-requested": said}

    group = {"metadata": {"name": "g", "namespace": "n", "annotations": notes}}
    spec = decode.group_spec(POD_GROUP, decode_group(msgspec.json.encode(group)))

    assert spec.requested == want
