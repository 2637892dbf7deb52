"""Corrections of numbers have a rate, which namespaces share."""

from collections import Counter

import pytest

from scheduler.status.number_writes import NumberWrites


def corrected(objects: dict[str, int], seconds: float) -> dict[str, int]:
    """Return the writes of each namespace if the numbers of its objects change all the time."""
    writes: NumberWrites[str] = NumberWrites()
    keys = [(f"{ns}/{at}", ns) for ns, count in objects.items() for at in range(count)]
    for key, namespace in keys:
        writes.wrote(key, namespace, 0.0)
    found, now = dict.fromkeys(objects, 0), 0.0
    while now < seconds:
        now += 0.5
        for key, namespace in keys:
            if writes.due_in(key, now) <= 0:
                writes.wrote(key, namespace, now)
                found[namespace] += 1
    return found


@pytest.mark.parametrize(
    ("objects", "calm"),
    [
        pytest.param({"calm": 1}, 33, id="every three seconds"),
        pytest.param({"calm": 1, "flood": 1000}, 33, id="a flood of another namespace"),
        pytest.param({"calm": 1000}, 2000, id="twenty a second"),
        pytest.param({"calm": 100, "a": 100, "b": 100, "c": 100}, 500, id="equal shares"),
    ],
)
def test_writes_in_hundred_seconds(objects: dict[str, int], calm: int) -> None:
    found = corrected(objects, 100)

    assert found["calm"] == pytest.approx(calm, rel=0.1)
    assert sum(found.values()) <= 20 * 100 + sum(objects.values())


@pytest.mark.parametrize("quiet", [0.0, 1000.0])
def test_many_objects_do_not_come_due_at_once(quiet: float) -> None:
    """However long nothing changed: a node that joins changes the numbers of all."""
    writes: NumberWrites[int] = NumberWrites()
    for key in range(4000):
        writes.wrote(key, f"ns-{key % 10}", 0.0)
    in_second: Counter[int] = Counter()
    due = dict.fromkeys(range(4000), quiet + 5.0)
    while due:
        now = min(due.values())
        for key in [key for key, at in due.items() if at <= now]:
            if (left := writes.due_in(key, now)) > 0:
                due[key] = now + left
                continue
            writes.wrote(key, f"ns-{key % 10}", now)
            in_second[int(now - quiet)] += 1
            del due[key]

    # Ten namespaces, each with 8 turns at the begin of every four seconds.
    assert max(in_second.values()) <= 10 * 8
    assert max(in_second) == pytest.approx(4000 / 20, rel=0.1)


@pytest.mark.parametrize("waiting", [1, 3000])
@pytest.mark.parametrize("deleted", [500, 5000])
def test_objects_that_wait_no_longer_soon_leave_the_rate_to_others(
    waiting: int, deleted: int
) -> None:
    writes: NumberWrites[str] = NumberWrites()
    for at in range(waiting):
        writes.wrote(f"busy-{at}", "busy", 0.0)
    for at in range(deleted):
        writes.wrote(f"old-{at}", f"ns-{at}", 0.0)
    writes.wrote("new", "ns", 0.0)
    writes.wrote("other", "ns", 0.0)
    writes.discard("other")
    existing = {"new", *(f"busy-{at}" for at in range(waiting))}
    for _ in range(10):
        writes.keep(existing)

    # Two namespaces are left, so it is corrected as often as any object.
    assert writes.due_in("new", 3.0) <= 0
    assert writes.due_in("old-1", 0.0) == 0.0
