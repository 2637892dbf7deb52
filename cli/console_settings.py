"""How the console is set up: as the scheduler of its configuration file."""

from __future__ import annotations

from api.features import Feature
from cli.config import File
from cli.what_if_process import WhatIfProcess
from console.protocols import WhatIf
from console.serving import Settings
from console.state import LiveCluster
from scheduler.core.values.search_budget import SearchBudget


def settings_of(file: File, topology_keys: tuple[str, ...] = ()) -> Settings:
    """How the scheduler of that configuration file is set up."""
    budget = SearchBudget(steps=file.scheduler.search.steps, profiles=file.scoring)

    def what_if(cluster: LiveCluster) -> WhatIf:
        return WhatIfProcess(
            cluster,
            budget=budget,
            schedulers=file.scheduler_names,
            gates=file.gates,
            preempts=file.scheduler.preemption.enabled and Feature.PREEMPTION in file.gates,
        )

    return Settings(
        budget=budget,
        scheduler_names=file.scheduler_names,
        gates=file.gates,
        topology_keys=topology_keys,
        what_if=what_if,
    )
