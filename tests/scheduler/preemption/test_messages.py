"""The messages of preemption never name another namespace's objects."""

from scheduler.core.groups.forest import Group, Pod
from scheduler.core.state.units import Unit
from scheduler.core.values.model import POD_GROUP, SINGLE_POD, PodInfo, Requirements
from scheduler.preemption.messages import preemptor_text, victims_text
from tests.scheduler.state_builder import StateBuilder


def unit(kind: str, namespace: str, name: str, *, pods: int = 1, priority: int = 0) -> Unit:
    builder = StateBuilder()
    key = (kind, namespace, name)
    found = Unit(key, 0, Group(key) if kind == POD_GROUP else None, priority)
    for number in range(pods):
        info = PodInfo(f"u{number}", namespace, f"p{number}", Requirements())
        found.pods[info.uid] = Pod(info, builder.state.shapes.intern(info.requirements), None)
    return found


def test_own_victims_are_named() -> None:
    units = [unit(POD_GROUP, "ns", "low", pods=2), unit(SINGLE_POD, "ns", "one")]

    assert victims_text(units, "ns") == ("3 pods of lower priority (PodGroup ns/low, Pod ns/one)")


def test_of_many_own_victims_the_first_are_named() -> None:
    units = [unit(SINGLE_POD, "ns", f"v{n}") for n in range(5)]

    assert victims_text(units, "ns", most=1) == "5 pods of lower priority (Pod ns/v0, 4 more)"


def test_others_victims_are_counted_by_kind_with_their_priority() -> None:
    units = [
        unit(SINGLE_POD, "ns", "mine"),
        unit(POD_GROUP, "secret", "merger", pods=2, priority=7),
        unit(SINGLE_POD, "secret", "plan"),
        unit(SINGLE_POD, "secret", "other"),
    ]

    said = victims_text(units, "ns")

    assert said == (
        "5 pods of lower priority (Pod ns/mine, 2 Pods and 1 PodGroup of other namespaces,"
        " of priority 7 at most)"
    )


def test_a_victim_hears_the_name_of_a_preemptor_of_its_own_namespace_only() -> None:
    root = (POD_GROUP, "ns", "high")

    assert preemptor_text(root, 5, "ns") == "PodGroup ns/high of priority 5"
    assert preemptor_text(root, 5, "other") == "a PodGroup of another namespace, of priority 5"
