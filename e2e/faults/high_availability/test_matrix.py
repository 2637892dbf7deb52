"""Rows of the table in random order, each under the load that the last ones left."""

import asyncio
import random
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack

import pytest

from e2e.faults.high_availability.matrix import Matrix
from e2e.faults.high_availability.table import FAULTS, ROWS, WHO, Row
from e2e.harness.controlplane.places import ROOT

SEED = 20261130
EVIDENCE = ROOT / ".cache" / "high-availability"

pytestmark = pytest.mark.long


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Play as many rows as the option says; each is a test, so that one can be repeated."""
    if "number" in metafunc.fixturenames:
        numbers = range(metafunc.config.getoption("--combinations"))
        ids = [f"{number}: {', '.join(row(number))}" for number in numbers]
        metafunc.parametrize("number", numbers, ids=ids)


@pytest.fixture(scope="module")
def play(server_kind: str) -> Iterator[Callable[[Row, int], None]]:
    """A function that plays a row on the one site of the module, in its event loop."""
    if server_kind != "real":
        pytest.skip("only the real control plane has members")
    with asyncio.Runner() as runner:
        stack = AsyncExitStack()
        matrix = runner.run(stack.enter_async_context(Matrix.running(SEED, print, EVIDENCE)))
        try:
            yield lambda row, seed: runner.run(matrix.play(row, seed))
            runner.run(matrix.end())
        finally:
            runner.run(stack.aclose())


def test_nothing_is_wrong_after_a_fault(play: Callable[[Row, int], None], number: int) -> None:
    play(row(number), number)


def row(number: int) -> Row:
    """Return a row of the table: each fault comes once in 22 numbers, each row once in 88."""
    cycle, at = divmod(number, len(FAULTS))
    fault = random.Random(f"{SEED}/{cycle}").sample([*FAULTS], len(FAULTS))[at]
    return Row(WHO[([*FAULTS].index(fault) + cycle) % len(WHO)], fault)


def test_numbers_are_rows_in_random_order() -> None:
    rows = [row(number) for number in range(len(ROWS))]
    assert set(rows) == set(ROWS)
    assert {each.fault for each in rows[: len(FAULTS)]} == FAULTS.keys()
    assert {each.who for each in rows[: len(FAULTS)]} == set(WHO)
