"""The conditions of groups, derived from the state."""

import pytest

from scheduler.status.conditions import group_views
from tests.scheduler.state_builder import StateBuilder


@pytest.mark.parametrize(
    ("composite", "gang", "message"),
    [
        (False, True, "has its minCount placed"),
        (False, False, "has a pod placed"),
        (True, True, "has its minGroupCount placed"),
        (True, False, "has a child group placed"),
    ],
)
def test_a_scheduled_group_says_which_minimum_is_placed(
    *, composite: bool, gang: bool, message: str
) -> None:
    builder = StateBuilder()
    builder.nodes(1, cpu=2)
    key = builder.gang("top", 1, gang=gang, composite=composite)
    if composite:
        builder.gang("leaf", 1, parent="top")
    builder.pod("leaf" if composite else "top", node="n0")

    view = group_views(builder.state, builder.state.forest.groups[key], None)[0]

    assert view.group.key == key
    assert view.message == message
