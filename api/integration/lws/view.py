"""A LeaderWorkerSet as the integration sees it: its replicas, and in which order their pods come.

Facts of the LeaderWorkerSet controller, as of v0.7.0. A replica is a leader pod and a StatefulSet
of workers, `size` pods together. Pods carry the replica's number in the label `group-index`, and
leaders alone have the `worker-index` 0. The workers of a replica are made when its leader is there;
with the startup policy LeaderReady when it is ready, and with the annotation `exclusive-topology`
when it has a node, since they get a node selector for its domain.

Where `size` changes, the StatefulSet of workers that is there stays as it is until its leader goes:
the annotation `size` of its pods says how many the replica has. A leader's says less: with a
`partition` it is made anew from the earlier revision, and its workers in today's number.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from api.causes import Cause
from api.constants import (
    ANNOTATION_GROUP_BY,
    LABEL_POD_GROUP,
    LWS_LABEL_GROUP_INDEX,
    LWS_LABEL_WORKER_INDEX,
    MAX_REPLICAS,
)
from api.groups import GroupBy
from api.integration.common.options import COMPOSITE, GANG, OFF, Options, read_options
from api.reading import annotations_of, dig, integer, labels_of, mapping, text

MODES: Final = (OFF, GANG, COMPOSITE)

ANNOTATION_EXCLUSIVE: Final = "leaderworkerset.sigs.k8s.io/exclusive-topology"
LEADER_READY: Final = "LeaderReady"

TOGETHER: Final = GroupBy(LWS_LABEL_GROUP_INDEX)
LEADER_FIRST: Final = GroupBy(LWS_LABEL_GROUP_INDEX, LWS_LABEL_WORKER_INDEX, "0")

TEMPLATE: Final = "spec.leaderWorkerTemplate"


@dataclass(frozen=True, slots=True)
class PodTemplate:
    """One of the two pod templates, and the path to it."""

    path: str
    template: Mapping[str, Any]

    @property
    def spec(self) -> Mapping[str, Any]:
        """Its pods' spec."""
        return mapping(self.template.get("spec"))

    @property
    def labels(self) -> Mapping[str, Any]:
        """Its pods' labels."""
        return labels_of(self.template)

    @property
    def annotations(self) -> Mapping[str, Any]:
        """Its pods' annotations."""
        return annotations_of(self.template)


@dataclass(frozen=True, slots=True)
class LwsView:
    """What one LeaderWorkerSet asks for. Invalid values are reported in `faults`.

    `replicas` is what its spec says, `present` how many there are, which are more during a rolling
    update with maxSurge and while it is scaled down. `exclusive` is the key of its exclusive
    topology.
    """

    name: str
    namespace: str
    uid: str
    options: Options
    replicas: int
    present: int
    size: int
    startup_policy: str
    exclusive: str
    templates: tuple[PodTemplate, ...]
    faults: tuple[Cause, ...]

    @property
    def leader_first(self) -> bool:
        """Whether workers are made only once their leader has a node."""
        return self.startup_policy == LEADER_READY or bool(self.exclusive)

    @property
    def group_by(self) -> GroupBy:
        """By which labels its pods are told apart."""
        return LEADER_FIRST if self.leader_first else TOGETHER

    @property
    def grouped(self) -> range:
        """The numbers of the replicas that get groups."""
        return range(min(MAX_REPLICAS, max(self.replicas, self.present) if self.replicas else 0))

    @property
    def has_groups(self) -> bool:
        """Whether there are groups for it now."""
        return self.is_marked and bool(self.grouped)

    @property
    def is_marked(self) -> bool:
        """Whether admission named the groups in its templates."""
        wanted = (self.name, self.group_by.text())
        return (
            self.options.asks
            and bool(self.templates)
            and all(
                (it.labels.get(LABEL_POD_GROUP), it.annotations.get(ANNOTATION_GROUP_BY)) == wanted
                for it in self.templates
            )
        )


def read_lws(lws: Mapping[str, Any]) -> LwsView:
    """Reads a LeaderWorkerSet (raw JSON of any structure)."""
    faults: list[Cause] = []
    spec = mapping(lws.get("spec"))
    return LwsView(
        name=text(dig(lws, "metadata", "name")),
        namespace=text(dig(lws, "metadata", "namespace")),
        uid=text(dig(lws, "metadata", "uid")),
        options=read_options(lws, "", MODES, faults),
        replicas=_count(spec.get("replicas"), 1),
        present=_count(dig(lws, "status", "replicas"), 0),
        size=_count(dig(spec, "leaderWorkerTemplate", "size"), 1),
        startup_policy=text(spec.get("startupPolicy")),
        exclusive=text(annotations_of(lws).get(ANNOTATION_EXCLUSIVE)),
        templates=tuple(_templates(mapping(spec.get("leaderWorkerTemplate")))),
        faults=tuple(faults),
    )


def _templates(spec: Mapping[str, Any]) -> list[PodTemplate]:
    """That of the leader first; without one leaders are made from that of the workers."""
    return [
        PodTemplate(f"{TEMPLATE}.{key}", mapping(spec.get(key)))
        for key in ("leaderTemplate", "workerTemplate")
        if isinstance(spec.get(key), Mapping)
    ]


def _count(value: Any, default: int) -> int:
    found = integer(value)
    return default if found is None else max(0, found)
