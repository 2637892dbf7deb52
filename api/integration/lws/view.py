"""A LeaderWorkerSet in the form that the integration uses: its replicas, and their pods' order.

These are facts of the LeaderWorkerSet controller, as of v0.7.0. A replica is a leader pod and a
StatefulSet of workers, together `size` pods. Pods have the replica's number in the label
`group-index`, and only leaders have `worker-index` 0. The workers of a replica are created once its
leader exists; with the startup policy LeaderReady once it is ready, and with the annotation
`exclusive-topology` once it has a node, as they get a node selector for its domain.

If `size` changes, an existing StatefulSet of workers does not change until its leader is deleted.
The annotation `size` of its pods states how many the replica has. The leader's is not reliable:
with a `partition` it is recreated from the earlier revision, and its workers in the current number.
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
from api.reading import annotations_of, count, dig, labels_of, mapping, text

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
        """Spec of the template's pods."""
        return mapping(self.template.get("spec"))

    @property
    def labels(self) -> Mapping[str, Any]:
        """Labels of the template's pods."""
        return labels_of(self.template)

    @property
    def annotations(self) -> Mapping[str, Any]:
        """Annotations of the template's pods."""
        return annotations_of(self.template)


@dataclass(frozen=True, slots=True)
class LwsView:
    """The options of one LeaderWorkerSet, with invalid values in `faults`.

    `replicas` is the number in its spec. `present` is the number that exists, which is larger
    during a rolling update with maxSurge and while the set is scaled down. `exclusive` is the key
    of its exclusive topology.
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
        """True if workers are created only once their leader has a node."""
        return self.startup_policy == LEADER_READY or bool(self.exclusive)

    @property
    def group_by(self) -> GroupBy:
        """The labels that separate the groups of its pods."""
        return LEADER_FIRST if self.leader_first else TOGETHER

    @property
    def grouped(self) -> range:
        """Numbers of the replicas that get groups."""
        # Replicas beyond `replicas` exist during a rolling update, and keep their groups.
        return range(min(MAX_REPLICAS, max(self.replicas, self.present) if self.replicas else 0))

    @property
    def has_groups(self) -> bool:
        """True if the set has groups now."""
        return self.is_annotated and bool(self.grouped)

    @property
    def is_annotated(self) -> bool:
        """True if admission named the groups in the set's templates."""
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
    """Parse a LeaderWorkerSet (raw JSON of any structure)."""
    faults: list[Cause] = []
    spec = mapping(lws.get("spec"))
    return LwsView(
        name=text(dig(lws, "metadata", "name")),
        namespace=text(dig(lws, "metadata", "namespace")),
        uid=text(dig(lws, "metadata", "uid")),
        options=read_options(lws, "", MODES, faults),
        replicas=count(spec.get("replicas"), 1),
        present=count(dig(lws, "status", "replicas"), 0),
        size=count(dig(spec, "leaderWorkerTemplate", "size"), 1),
        startup_policy=text(spec.get("startupPolicy")),
        exclusive=text(annotations_of(lws).get(ANNOTATION_EXCLUSIVE)),
        templates=tuple(_templates(mapping(spec.get("leaderWorkerTemplate")))),
        faults=tuple(faults),
    )


def _templates(spec: Mapping[str, Any]) -> list[PodTemplate]:
    """Return the templates, the leader's first; it may be absent."""
    return [
        PodTemplate(f"{TEMPLATE}.{key}", mapping(spec.get(key)))
        for key in ("leaderTemplate", "workerTemplate")
        if isinstance(spec.get(key), Mapping)
    ]
