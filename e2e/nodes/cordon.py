"""Nodes that new pods avoid for a while."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from e2e.harness.support.kubectl import Kubectl


@asynccontextmanager
async def cordoned(kubectl: Kubectl, node: str) -> AsyncIterator[None]:
    """Have new pods go to other nodes for the duration of the block."""
    await kubectl("cordon", node)
    try:
        yield
    finally:
        await kubectl("uncordon", node)
