"""Each row of the table once, and random rows under the load that the last ones left."""

import asyncio
import random
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack

import pytest

from e2e.faults.high_availability.matrix import Matrix
from e2e.faults.high_availability.table import ROWS, Row
from e2e.harness.controlplane.places import ROOT

SEED = 20261130
EVIDENCE = ROOT / ".cache" / "high-availability"

pytestmark = pytest.mark.long


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Play as many random rows as the option says; each is a test, so that one can be repeated."""
    if "number" in metafunc.fixturenames:
        metafunc.parametrize("number", range(metafunc.config.getoption("--combinations")))


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


@pytest.mark.parametrize("row", [pytest.param(row, id=", ".join(row)) for row in ROWS])
def test_nothing_is_wrong_after_each_fault(play: Callable[[Row, int], None], row: Row) -> None:
    play(row, SEED)


def test_nothing_is_wrong_after_random_faults(
    play: Callable[[Row, int], None], number: int
) -> None:
    play(random.Random(f"{SEED}/{number}").choice(ROWS), number)
