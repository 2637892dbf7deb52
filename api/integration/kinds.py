"""The kinds that request groups. To add one, write its class and add a line here."""

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
"""Kinds whose pods are all in one PodGroup, by name. One controller handles all of them."""

OWNER_KINDS: Final[Mapping[str, OwnerKind]] = {
    **{it.kind.kind: it for it in (JobSets(), Jobs(), LeaderWorkerSets())},
    **SINGLE_GROUP_KINDS,
}
"""Kinds whose objects admission changes, by name."""

CREATOR_KINDS: Final = tuple(
    dict.fromkeys(creator for it in OWNER_KINDS.values() for creator in it.created_by)
)
"""Kinds that create owners for users who know only the creator: it gets their wait annotation."""

EMBEDDING_KINDS: Final[Mapping[str, EmbeddingKind]] = {
    it.kind.kind: it for it in (CronJobs(), RayJobs(), RayServices())
}
"""Kinds that create objects of the former, by name. Admission only reports on them."""
