"""The plugins declare the events that can make a rejected pod fit; no others wake it."""

from collections.abc import Iterable
from typing import ClassVar

import pytest

from scheduler.core.framework.events import NODE_EVENTS, Event, Events, Reach
from scheduler.core.framework.framework import Framework
from scheduler.core.framework.plugin import Plugin
from scheduler.core.state.state_changes import StateChanges
from scheduler.core.values.model import NodeInfo, Requirements
from tests.scheduler.state_builder import StateBuilder

NODES, READERS, CLUSTER = Reach

FILTERS = ("filter_class", "filter_nodes", "filter_pods", "capacity", "insufficient")


def framework(more: Iterable[Plugin] = ()) -> Framework:
    state = StateBuilder().state
    return Framework(state.nodes, state.selectors, state.framework.plugins, list(more))


def test_what_the_plugins_state_reaches_as_far_as_the_events_do() -> None:
    assert framework().reach == {
        Event.NODE_ADD: {NODES},
        Event.NODE_UPDATE: {NODES},
        Event.DOMAINS: {CLUSTER},
        Event.POD_ADD: {READERS},
        Event.POD_DELETE: {NODES, READERS},
        Event.TERMS: {CLUSTER},
        Event.NOMINATION_DELETE: {NODES},
        Event.CLAIM_RELEASE: {READERS},
        Event.VOLUME_RELEASE: {CLUSTER},
        Event.CLAIM: {CLUSTER},
        Event.VOLUME: {CLUSTER},
        Event.STORAGE_CLASS: {CLUSTER},
        Event.CSI_DRIVER: {CLUSTER},
        Event.CSI_NODE: {CLUSTER},
        Event.STORAGE_CAPACITY: {CLUSTER},
        Event.DEVICES: {NODES},
    }


def test_each_plugin_that_filters_states_the_events_of_nodes() -> None:
    for plugin in framework().plugins:
        filters = any(getattr(type(plugin), name) is not vars(Plugin)[name] for name in FILTERS)
        assert filters == (plugin.events.items() >= NODE_EVENTS.items()), plugin.name


@pytest.mark.parametrize("event", Event)
def test_an_event_of_a_new_plugin_is_one_line_of_it(event: Event) -> None:
    class Rule(Plugin):
        name = "Rule"
        events: ClassVar[Events] = {event: CLUSTER}

    assert framework([Rule()]).reach[event] == {*framework().reach[event], CLUSTER}
    assert framework([Plugin()]).reach == framework().reach


def test_an_event_that_no_plugin_states_wakes_nobody() -> None:
    changes = StateChanges()
    changes.note((), rows=(1,), match_ids=(2,))
    assert not changes


def test_a_flood_of_events_takes_no_more_memory_than_there_are_nodes_and_counts() -> None:
    builder = StateBuilder()
    state = builder.state
    for number in range(3):
        state.set_node(NodeInfo(f"n{number}", {"cpu": 8000, "pods": 110}))
    for _ in range(100):
        for event in Event:
            state.happened(event, range(3))
        info = builder.pod(requirements=Requirements(requests=(("cpu", 1000),)))
        pod = state.set_pod(info)
        assert pod is not None
        state.assume([pod], [0])
        state.remove_pod(info.uid)
    assert state.changes.rows == {0, 1, 2}
    assert not state.changes.match_ids
