"""Temporary feature gates on Muster's running processes."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

from api.features import Feature
from e2e.harness import muster as processes
from e2e.harness.muster import Muster


@contextmanager
def switched_on(muster: Muster, *features: Feature, **fields: object) -> Iterator[None]:
    """Run all processes with the gates on until the end of the block, and then as before.

    `fields` extend their configuration.
    """
    try:
        _restart(muster, featureGates={str(it): True for it in features}, **fields)
        yield
    finally:
        _restart(muster)


def _restart(muster: Muster, **fields: object) -> None:
    muster.configure(**fields)
    for name in processes.ALL:
        if muster.running(name):
            muster.kill(name)
    with asyncio.Runner() as runner:
        runner.run(muster.start(*processes.ALL))
