"""Numbers of refused roots are renewed, those with the oldest basis first."""

from scheduler.core.values.model import POD_GROUP, GroupKey
from scheduler.queue.renewals import Renewals


def key(name: str) -> GroupKey:
    return POD_GROUP, "ns", name


def test_a_root_with_current_numbers_hides_none_that_was_refused_with_old_ones() -> None:
    renewals = Renewals()
    renewals.refused(key("decided"), 10.0, 2, current=2)
    # As its equal was refused at 1 s; nothing happened since that could help.
    renewals.refused(key("equal"), 1.0, 1, current=2)

    assert renewals.next_time(2) == 3.0
    assert renewals.pop_due(10.0, 2) == key("equal")
    assert renewals.next_time(2) is None
