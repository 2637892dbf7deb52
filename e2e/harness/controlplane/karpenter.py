"""Karpenter with its KWOK provider: its CRDs, read from the module, and its instance types."""

import json
from pathlib import Path
from typing import Any

from e2e.harness.support import definitions
from e2e.harness.support.rest import Rest

ZONES = ("zone-a", "zone-b", "zone-c")
SIZES = (2, 4, 8)
"""The capacities of the nodes in pods of one CPU. Each CPU costs the same, whatever the size."""

_CRDS = (
    "pkg/apis/crds/karpenter.sh_nodepools.yaml",
    "pkg/apis/crds/karpenter.sh_nodeclaims.yaml",
    "pkg/apis/crds/karpenter.sh_nodeoverlays.yaml",
    "kwok/apis/crds/karpenter.kwok.sh_kwoknodeclasses.yaml",
)
_RESERVED_MILLICPU = 100  # reserved by the provider, on each node
_CPU_PRICE = 0.11


def write_instance_types(folder: Path) -> Path:
    """Write the file from which the provider reads its instance types."""
    file = folder / "instance-types.json"
    file.write_text(json.dumps([_instance_type(size) for size in SIZES]))
    return file


async def apply_crds(rest: Rest, module: Path) -> None:
    """Apply the CRDs of the module's folder, and wait until they are served."""
    await definitions.apply_files(rest, *(module / name for name in _CRDS))


def _instance_type(size: int) -> dict[str, Any]:
    return {
        "name": f"c-{size}x-amd64-linux",
        "architecture": "amd64",
        "operatingSystems": ["linux"],
        "resources": {
            "cpu": f"{1000 * size + _RESERVED_MILLICPU}m",
            "memory": f"{4 * size}Gi",
            "ephemeral-storage": "20Gi",
            "pods": "110",
        },
        "offerings": [_offering(size, zone) for zone in ZONES],
    }


def _offering(size: int, zone: str) -> dict[str, Any]:
    requirements = {
        "karpenter.sh/capacity-type": "on-demand",
        "topology.kubernetes.io/zone": zone,
    }
    return {
        "Price": round(size * _CPU_PRICE, 3),
        "Available": True,
        "Requirements": [
            {"key": key, "operator": "In", "values": [value]} for key, value in requirements.items()
        ],
    }
