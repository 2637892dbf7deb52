"""The input of commands that run the solver: a cluster, read once, or a snapshot file."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import typer

from analysis.simulate.stored_pods import PodAdmission
from api import features
from api.features import Feature, FeatureGates
from api.scheduler_names import USUAL, SchedulerNames
from cli.commands.options import on_cluster
from cli.config.config import File
from kube.base.errors import ConfigError
from kube.client.client import Client
from kube.credentials.loading import ClientConfig
from kube.credentials.rest_config import DEFAULT_NAMESPACE
from scheduler.core.preemption.dry_run import SearchEffort
from scheduler.core.search.place import SearchBudget
from scheduler.core.state.state import State
from scheduler.core.values.model import GroupKey
from scheduler.decoding.objects import GroupObject
from scheduler.snapshot import snapshot as snapshots
from scheduler.snapshot.snapshot import Limits, Snapshot
from scheduler.watch.informers import read


@dataclass(frozen=True, slots=True)
class ClusterCopy:
    """A copy of a cluster to decide on; `observed` is empty for a snapshot, which has no owners.

    `pods` knows what the API server adds to new pods of this cluster. `namespace` is that of the
    kubeconfig's context, for names without one. `gates` are the feature gates of the configuration
    file.
    """

    state: State
    limits: Limits
    pods: PodAdmission
    observed: Mapping[GroupKey, GroupObject] = field(default_factory=dict)
    namespace: str = DEFAULT_NAMESPACE
    gates: FeatureGates = features.USUAL

    @property
    def scheduler_names(self) -> SchedulerNames:
        """Names of Muster's schedulers in this cluster."""
        names = tuple(self.limits.profiles)
        return SchedulerNames(names) if names else USUAL

    @property
    def budget(self) -> SearchBudget:
        return self.limits.budget()


def cluster_copy(
    access: ClientConfig, snapshot: Path | None, file: File, *, for_new_pods: bool = False
) -> ClusterCopy:
    """Return the snapshot if there is one, else the cluster. Raises ConfigError, KubeError.

    `for_new_pods` adds the LimitRanges and RuntimeClasses, which a snapshot does not contain.
    """
    if snapshot is not None:
        recorded = read_snapshot(snapshot)
        state, _ = snapshots.restore(recorded)
        pods = PodAdmission(tuple(recorded.priorities))
        return ClusterCopy(state, recorded.limits, pods, gates=file.gates)

    async def read_cluster(client: Client) -> ClusterCopy:
        sources = await read(
            client,
            scheduler_names=file.scheduler_names,
            gates=file.gates,
            expected_limits=file.scheduler.holding.limits(),
        )
        pods = PodAdmission(tuple(sources.priority_classes.all()))
        if for_new_pods:
            pods = await pods.with_cluster(client)
        clock, preemption = client.server_clock, file.scheduler.preemption
        effort = SearchEffort.at(clock.monotonic(), preemption.patience_seconds)
        sources.state.units.protection = preemption.protection(clock)
        preempts = preemption.enabled and Feature.PREEMPTION in file.gates
        limits = Limits.of(SearchBudget(profiles=file.scoring), effort, preempts=preempts)
        return ClusterCopy(
            sources.state, limits, pods, sources.observed, client.namespace, file.gates
        )

    return on_cluster(access, read_cluster)


def read_snapshot(file: Path) -> Snapshot:
    """Read the snapshot in the file. Raises ConfigError."""
    try:
        data = file.read_bytes()
    except OSError as error:
        raise ConfigError(f"{file}: {error.strerror}") from error
    return snapshots.decode(data, str(file))


def echo(lines: Iterable[str]) -> None:
    """Print the lines."""
    for line in lines:
        typer.echo(line)
