"""Conversion of a group's expected pod to the pod that represents it in the state."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from api.constants import LABEL_POD_GROUP, MAX_EXPECTED_STAGE
from api.scheduler_names import SchedulerNames
from kube.client.meta import Key
from scheduler.core.values.model import PodInfo, Stage
from scheduler.decoding import decode
from scheduler.decoding.objects import (
    ExpectedPodsSpec,
    GroupObject,
    Metadata,
    Pod,
    PodSpec,
    TolerationSpec,
)
from scheduler.expected.claims import keys_of

UID_PREFIX: Final = "expected/"
"""Prefix of expected pods' UIDs. No object of the API server has a UID with a slash."""

_LAST: Final = "~"
"""Creation time that sorts after all others: existing pods go first."""

_ADDED: Final = tuple(
    TolerationSpec(f"node.kubernetes.io/{condition}", "Exists", "", "NoExecute")
    for condition in ("not-ready", "unreachable")
)
"""Tolerations that the admission plugin DefaultTolerationSeconds adds to each pod."""


def parse(uid: str) -> tuple[Key, str, int]:
    """Return group (namespace and name), kind and number of an expected pod."""
    _, namespace, name, kind, number = uid.split("/")
    return (namespace, name), kind, int(number)


def uid_of(key: Key, kind: str, number: int) -> str:
    """Return the UID of an expected pod."""
    return f"{UID_PREFIX}{key[0]}/{key[1]}/{kind}/{number}"


def has_volumes(kind: ExpectedPodsSpec) -> bool:
    """True if such a pod needs volumes whose nodes are known only once it exists."""
    kinds = {"persistentVolumeClaim", "ephemeral"}
    return any(kinds & volume.keys() for volume in kind.template.spec.volumes)


def info_of(
    key: Key, group: GroupObject, kind: ExpectedPodsSpec, schedulers: SchedulerNames
) -> PodInfo:
    """Return a pod of the kind as a watch would deliver it."""
    written = kind.template.spec
    spec = PodSpec(
        scheduler_name=written.scheduler_name or schedulers.default,
        containers=written.containers,
        init_containers=written.init_containers,
        overhead=written.overhead,
        resources=written.resources,
        node_selector=written.node_selector,
        affinity=written.affinity,
        tolerations=_with_added(written.tolerations),
        topology_spread_constraints=written.topology_spread_constraints,
    )
    metadata = Metadata(
        name=kind.name,
        namespace=key[0],
        uid=UID_PREFIX,
        # The label wins over the template's: the pod is a member of the group that declares it.
        labels={**kind.template.metadata.labels, LABEL_POD_GROUP: key[1]},
    )
    info = decode.pod_info(Pod(metadata, spec), None, schedulers)
    stage = Stage(kind.stage, exists=False) if 0 < kind.stage <= MAX_EXPECTED_STAGE else None
    return replace(
        info,
        requirements=replace(info.requirements, stage=stage),
        group=key[1],
        # Members need the priority of their group.
        priority=group.spec.priority or 0,
        created=_LAST,
        # Preemption compares start times: a pod that has not started is the youngest.
        started=decode.FAR_AWAY,
        gated=False,
        expected=True,
    )


def _with_added(written: tuple[TolerationSpec, ...]) -> tuple[TolerationSpec, ...]:
    keys = {each.key for each in written}
    # An empty key tolerates everything.
    return (*written, *(each for each in _ADDED if each.key not in keys and "" not in keys))


def numbered(info: PodInfo, key: Key, kind: str, number: int) -> PodInfo:
    """Return one of the expected pods of a kind."""
    uid, name = uid_of(key, kind, number), f"{kind}-{number} (expected)"
    return replace(info, uid=uid, name=name, device_claims=keys_of(info, uid))
