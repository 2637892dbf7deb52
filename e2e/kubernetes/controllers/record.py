"""Record the flows on a real control plane, one YAML file for each flow.

`python -m e2e.kubernetes.controllers.record [FLOW ...]` writes into `data`, next to this module.
"""

import asyncio
import sys
from pathlib import Path

import yaml

from e2e.harness.controlplane.controlplane import ControlPlane
from e2e.kubernetes.controllers import job_flows, jobset_flows
from e2e.kubernetes.controllers.job_flows import NODE, Flow
from e2e.kubernetes.controllers.normalise import Interner
from e2e.kubernetes.controllers.recorder import Recorder

DATA = Path(__file__).parent / "data"
FLOWS: dict[str, Flow] = {**job_flows.FLOWS, **jobset_flows.FLOWS}


async def record(names: list[str]) -> None:
    """Record the named flows concurrently, each in its own namespace."""
    async with ControlPlane() as plane:
        await plane.add_node(NODE, capacity={"cpu": "64", "pods": "1000"})
        await asyncio.gather(*(_record(plane, name) for name in names))


async def _record(plane: ControlPlane, name: str) -> None:
    namespace = f"trace-{name}"
    async with plane.client() as rest, Recorder(rest, namespace) as recorder:
        await FLOWS[name](plane, recorder, namespace)
        steps = Interner().value(recorder.steps)
    document = {"flow": name, "namespace": namespace, "steps": steps}
    (DATA / f"{name}.yaml").write_text(yaml.safe_dump(document, sort_keys=False, width=100))
    print(f"{name}: {len(steps)} steps")


def main() -> int:
    names = sys.argv[1:] or list(FLOWS)
    if unknown := [name for name in names if name not in FLOWS]:
        print(f"no such flow: {', '.join(unknown)}; there are {', '.join(FLOWS)}")
        return 2
    asyncio.run(record(names))
    return 0


if __name__ == "__main__":
    sys.exit(main())
