"""The conditions of groups, derived from the state."""

import pytest

from scheduler.status.conditions import group_views
from tests.scheduler.state_builder import StateBuilder


@pytest.mark.parametrize(
    ("composite", "gang", "message"),
    [
        (False, True, "minCount pods are scheduled."),
        (False, False, "A pod is scheduled."),
        (True, True, "minGroupCount child groups are scheduled."),
        (True, False, "A child group is scheduled."),
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
