"""A control plane that serves Kubernetes' own groups."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest

from api.constants import NATIVE_GROUP
from e2e.harness.controlplane.commands import Options
from e2e.harness.controlplane.controlplane import ControlPlane
from e2e.harness.muster import Muster
from e2e.harness.running import installed, started

GATES = (
    "GenericWorkload",
    "TopologyAwareWorkloadScheduling",
    "CompositePodGroup",
    "PodGroupPreemptionPolicy",
)
"""The gates of groups, trees, their topology and their preemption policy."""

MARKS = [
    pytest.mark.timeout(300),
    pytest.mark.since("1.37", "Kubernetes serves these versions of its groups since 1.37"),
]


@contextmanager
def serving(
    server_kind: str, gates: Sequence[str], versions: Sequence[str], **more: Any
) -> Iterator[ControlPlane]:
    """Run it with these gates and versions of the groups; `more` are further `Options`.

    Skips the test on other clusters.
    """
    if server_kind != "real":
        pytest.skip("the gates need a real control plane: run with --cluster=real")
    made = ControlPlane(
        Options(
            feature_gates=dict.fromkeys(gates, True),
            runtime_config=tuple(f"{NATIVE_GROUP}/{version}=true" for version in versions),
            **more,
        )
    )
    with started(made):
        yield made


@contextmanager
def both_schedulers(
    server_kind: str,
    gates: Sequence[str] = GATES,
    controllers: Sequence[str] = (),
    *,
    coscheduling: bool = False,
    **config: Any,
) -> Iterator[tuple[ControlPlane, Muster]]:
    """Run it with kube-scheduler and Muster, whose configuration has these fields.

    `coscheduling` runs scheduler-plugins, too.
    """
    options: dict[str, Any] = {
        "scheduler": True,
        "extra_controllers": ("podgroup-protection-controller", *controllers),
        "coscheduling": coscheduling,
    }
    with (
        serving(server_kind, gates, ["v1beta1", "v1alpha3"], **options) as made,
        installed(made, **config) as muster,
    ):
        yield made, muster
