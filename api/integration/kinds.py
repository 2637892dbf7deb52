"""The kinds that ask for groups. To add one, write its class and add a line here."""

from collections.abc import Mapping
from typing import Final

from api.integration.apps.kinds import Deployments, StatefulSets
from api.integration.common.embedding_kind import EmbeddingKind
from api.integration.common.owner_kind import OwnerKind
from api.integration.job.kinds import CronJobs, Jobs
from api.integration.jobset.kinds import JobSets
from api.integration.lws.kinds import LeaderWorkerSets
from api.integration.mpi.kinds import MpiJobs
from api.integration.ray.kinds import RayClusters, RayJobs, RayServices
from api.integration.single_group.kind import SingleGroupKind

SINGLE_GROUP_KINDS: Final[Mapping[str, SingleGroupKind]] = {
    it.kind.kind: it for it in (StatefulSets(), Deployments(), RayClusters(), MpiJobs())
}
"""By their kind: those whose pods are all in one PodGroup. One controller serves them all."""

OWNER_KINDS: Final[Mapping[str, OwnerKind]] = {
    **{it.kind.kind: it for it in (JobSets(), Jobs(), LeaderWorkerSets())},
    **SINGLE_GROUP_KINDS,
}
"""By their kind: all whose objects admission marks."""

CREATOR_KINDS: Final = tuple(
    dict.fromkeys(creator for it in OWNER_KINDS.values() for creator in it.created_by)
)
"""What creates owners for users who know only that: Muster writes on it what these wait for."""

EMBEDDING_KINDS: Final[Mapping[str, EmbeddingKind]] = {
    it.kind.kind: it for it in (CronJobs(), RayJobs(), RayServices())
}
"""By their kind: those that create objects of these. Admission only reports on them."""
