"""The conditions of Kubernetes' own groups."""

from dataclasses import replace
from typing import Any

import pytest

from api.constants import NATIVE_COMPOSITE_POD_GROUP, NATIVE_POD_GROUP
from kube.client.meta import Json
from scheduler.core.explain.explain import Blocker
from scheduler.core.groups.forest import Group
from scheduler.core.values.model import GroupKey, GroupSpec
from scheduler.status.conditions import group_view
from scheduler.status.group_status import only_numbers_differ, wanted_status
from tests.scheduler.state_builder import StateBuilder

NOW = "2026-11-29T12:00:00Z"
LEAF, ROOT = NATIVE_POD_GROUP.full_kind, NATIVE_COMPOSITE_POD_GROUP.full_kind


def tree() -> tuple[StateBuilder, Group, Group]:
    """Return a root and one of its two children."""
    builder = StateBuilder()
    root: GroupKey = (ROOT, "ns", "root")
    builder.state.set_group(GroupSpec(root, 2, shared=True))
    for name in ("a", "b"):
        builder.state.set_group(GroupSpec((LEAF, "ns", name), 1, parent="root", shared=True))
        info = builder.pod(None, scheduler="muster-scheduler")
        builder.state.remove_pod(info.uid)
        builder.state.set_pod(replace(info, group=name, group_kind=LEAF))
    groups = builder.state.forest.groups
    return builder, groups[root], groups[LEAF, "ns", "a"]


def blocker(kind: Any, at: GroupKey, summary: str = "No node fits.") -> Blocker:
    return Blocker(summary, kind, at, 1, 0)


def condition(builder: StateBuilder, group: Group, why: Blocker, before: Json) -> Json:
    view = group_view(builder.state, group, why)
    status, _ = wanted_status(view, before, 0, NOW, lambda: False)
    assert list(status) == ["conditions"]
    (found,) = status["conditions"]
    return dict(found)


@pytest.mark.parametrize(
    ("kind", "reasons"),
    [
        ("capacity", ("Unschedulable", "Unschedulable")),
        ("quorum", ("Unschedulable", "Unschedulable")),
        ("invalid", ("CompositePodGroupError", "PodGroupError")),
        ("error", ("SchedulerError", "SchedulerError")),
    ],
)
def test_reasons_are_those_of_kubernetes_1_38(kind: str, reasons: tuple[str, str]) -> None:
    builder, root, leaf = tree()
    why = blocker(kind, root.key)

    found = [condition(builder, group, why, {}) for group in (root, leaf)]

    assert tuple(each["reason"] for each in found) == reasons
    assert found[0]["message"] == "No node fits."
    failed = "encountered an error" if kind == "error" else "is unschedulable"
    assert found[1]["message"] == f'ancestor composite pod group "root" {failed}'
    assert found[0]["observedGeneration"] == 0


def test_the_root_names_the_child_at_fault() -> None:
    builder, root, leaf = tree()

    found = condition(builder, root, blocker("capacity", leaf.key), {})

    assert found["message"] == 'Waiting for PodGroup "a": No node fits.'


@pytest.mark.parametrize("foreign", [False, True])
@pytest.mark.parametrize(
    "said",
    [
        {"status": "False", "reason": "SchedulerError"},
        {"status": "False", "reason": "Unschedulable"},
    ],
)
def test_two_schedulers_do_not_correct_each_other_for_ever(said: Json, *, foreign: bool) -> None:
    """In a tree of Muster's pods alone, its own earlier condition is replaced."""
    builder, root, _ = tree()
    if foreign:
        info = builder.pod(None, ours=False)
        builder.state.remove_pod(info.uid)
        builder.state.set_pod(replace(info, group="b", group_kind=LEAF))
    old = {"type": "CompositePodGroupInitiallyScheduled", "message": "theirs", **said}

    found = condition(builder, root, blocker("invalid", root.key), {"conditions": [old]})

    assert (found["message"] == "theirs") is foreign


@pytest.mark.parametrize(
    ("summary", "later"),
    [
        ("0/5 nodes are available: 5 Insufficient cpu.", True),
        ("0/4 nodes are available: 4 Insufficient memory.", False),
        ("The group has 3 of 4 pods.", False),
    ],
)
def test_a_message_of_which_only_numbers_change_is_written_later(summary: str, later: bool) -> None:
    builder, root, _ = tree()
    before: Json = {}
    for text in ("0/4 nodes are available: 4 Insufficient cpu.", summary):
        view = group_view(builder.state, root, blocker("capacity", root.key, text))
        status, _ = wanted_status(view, before, 0, NOW, lambda: False)
        last, before = before, status

    assert only_numbers_differ(before, last) is later
