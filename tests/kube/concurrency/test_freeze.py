"""During a freeze, writers of the state wait or defer their changes."""

import asyncio
from functools import partial

import pytest
from structlog.testing import capture_logs

from kube.concurrency.freeze import Freeze
from tests.support.clock import settle


async def test_nothing_waits_for_what_is_not_frozen() -> None:
    freeze, done = Freeze(), list[str]()
    await freeze.over()
    freeze.when_over(lambda: done.append("change"))

    assert done == ["change"]


async def test_who_changes_it_waits_until_it_is_over() -> None:
    freeze, done = Freeze(), list[str]()

    async def change() -> None:
        await freeze.over()
        done.append("change")

    with freeze:
        changing = asyncio.ensure_future(change())
        await settle()
        assert not done
    await changing

    assert done == ["change"]


async def test_who_waits_waits_again_if_the_next_has_begun() -> None:
    freeze, done = Freeze(), list[str]()

    async def change() -> None:
        await freeze.over()
        done.append("change")

    with freeze:
        changing = asyncio.ensure_future(change())
        await settle()
    with freeze:
        await settle()
        assert not done
    await changing


async def test_a_waiter_that_is_cancelled_does_not_matter() -> None:
    freeze = Freeze()
    with freeze:
        waiting = asyncio.ensure_future(freeze.over())
        await settle()
        waiting.cancel()
        await settle()

    await freeze.over()


def test_postponed_changes_are_made_in_their_order() -> None:
    freeze, done = Freeze(), list[int]()
    with freeze:
        for number in range(3):
            freeze.when_over(partial(done.append, number))
        assert not done

    assert done == [0, 1, 2]


def test_a_postponed_change_that_fails_is_logged_and_keeps_none_from_being_made() -> None:
    freeze, done = Freeze(), list[str]()

    def fail() -> None:
        raise ValueError("bad")

    with capture_logs() as logs, freeze:
        freeze.when_over(fail)
        freeze.when_over(lambda: done.append("other"))

    assert done == ["other"]
    assert [log["event"] for log in logs] == ["failed to apply a postponed change"]


def test_there_is_one_freeze_at_a_time() -> None:
    freeze = Freeze()
    with freeze, pytest.raises(RuntimeError), freeze:
        pass
