"""CRDs of other projects that are installed while Muster runs, and removed after a flow."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import yaml

from e2e.harness.environment import Environment
from e2e.harness.muster import CONTROLLER
from e2e.harness.support import definitions
from e2e.harness.support.rest import Rest
from kube.client.resources import CRDS

FOLDER = Path(__file__).parent / "crds"


@asynccontextmanager
async def installed(env: Environment, file: str) -> AsyncIterator[None]:
    """Install the CRD in a file of `crds/` for the block; the controllers observe its deletion."""
    crd = yaml.safe_load((FOLDER / file).read_text())
    name = crd["metadata"]["name"]
    await env.client.create(CRDS, crd)

    async with Rest.open(env.cluster.kubeconfig) as rest:
        await definitions.served(rest, name)
    await env.cluster.kinds_installed()
    yield
    await env.client.delete(CRDS, name)
    await env.gone(CRDS, name)
    await env.muster.restart(CONTROLLER)
