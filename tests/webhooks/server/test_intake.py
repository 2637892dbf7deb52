"""The limit of buffered request data: requests that are delayed, and rejected ones."""

import pytest

from webhooks.server.intake import CONVERSION_ROOM, REVIEW_ROOM, BusyError, ByteBudget
from webhooks.server.routes import BODY_LIMIT, CONVERSION_LIMIT


class Ended(list[str]):
    """The names of the requests whose connections were closed."""

    def by(self, name: str) -> None:
        self.append(name)


def test_the_oldest_that_waits_for_its_client_gives_way() -> None:
    room, ended = ByteBudget(10), Ended()
    with (
        room.open(lambda: ended.by("complete")) as complete,
        room.open(lambda: ended.by("empty")),
        room.open(lambda: ended.by("old")) as old,
        room.open(lambda: ended.by("young")) as young,
        room.open(lambda: ended.by("new")) as new,
    ):
        for one in (complete, old, young):
            room.hold(one, 3)
        complete.waits = False

        room.hold(new, 4)

        assert ended == ["old"]
        assert room.held == 10
        with pytest.raises(BusyError):
            room.hold(old, 4)
    assert room.held == 0


def test_without_one_that_waits_a_request_is_turned_away() -> None:
    room = ByteBudget(10)
    with room.open(pytest.fail) as complete, room.open(pytest.fail) as new:
        room.hold(complete, 8)
        complete.waits = False

        with pytest.raises(BusyError, match="8 of at most 10 bytes"):
            room.hold(new, 3)
        room.hold(new, 2)
        room.hold(complete, 1)
        room.hold(new, 9)

    assert room.held == 0


def test_a_request_never_gives_way_to_itself() -> None:
    room = ByteBudget(10)
    with room.open(pytest.fail) as one:
        room.hold(one, 10)
        with pytest.raises(BusyError):
            room.hold(one, 11)
        assert room.held == 10


def test_what_may_be_sent_has_room() -> None:
    assert BODY_LIMIT <= REVIEW_ROOM
    assert CONVERSION_LIMIT <= CONVERSION_ROOM
