"""Feature gates for a while, on Muster's processes that run already."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

from api.features import Feature
from e2e import muster as processes
from e2e.muster import Muster


@contextmanager
def switched_on(muster: Muster, feature: Feature) -> Iterator[None]:
    """All processes run with the gate on until the end of the block, and then as before."""
    try:
        _restart(muster, {str(feature): True})
        yield
    finally:
        _restart(muster, {})


def _restart(muster: Muster, gates: dict[str, bool]) -> None:
    muster.configure(featureGates=gates)
    for name in processes.ALL:
        if muster.running(name):
            muster.kill(name)
    with asyncio.Runner() as runner:
        runner.run(muster.start(*processes.ALL))
