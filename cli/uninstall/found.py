"""The state of a cluster that the removal depends on, and its reader."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from api.constants import COSCHEDULING_GROUP, GROUP, JOB, JOBSET
from api.integration.kinds import CREATOR_KINDS, OWNER_KINDS
from api.reading import controller_of, dig, labels_of, mapping, text
from api.scheduler_names import SchedulerNames
from cli.trees.listing import get_or_none, list_items
from cli.uninstall.discovery import served
from cli.uninstall.installation import LABEL, LABEL_VALUE, Item, installed, quotas
from cli.uninstall.plan import RemovalState
from cli.uninstall.release import Target, target_of
from kube.base.errors import ServerError
from kube.client.client import Client
from kube.client.resources import (
    CRDS,
    JOBS,
    JOBSETS,
    PODS,
    REPLICA_SETS,
    SECRETS,
    Resource,
)

Object = dict[str, Any]
Kinds = Mapping[tuple[str, str], Resource]
"""The kinds that are served, by group and kind."""

RECORD_LABEL: Final = "scheduling.muster.dev/released-job"
"""Label of the Secret that records a Job while it is recreated."""

_GROUPS: Final = {GROUP, COSCHEDULING_GROUP}
"""Muster's kinds are recognized by group: Kueue, Volcano and others have kinds of the same
names."""

_OWNERS: Final = {
    ("", "ReplicationController"),
    ("apps", "DaemonSet"),
    ("apps", "ReplicaSet"),
    ("apps", "StatefulSet"),
    ("batch", "Job"),
}
"""Kinds that create pods from `spec.template`."""

_TOLD: Final = (
    *(it.kind for it in OWNER_KINDS.values() if it.kind not in (JOB, JOBSET)),
    *CREATOR_KINDS,
    REPLICA_SETS,
)
"""Kinds that have the annotation `waiting-for`, or a copy of it, besides Jobs and JobSets."""

_TO_PREPARE: Final = {
    "MutatingWebhookConfiguration",
    "ValidatingWebhookConfiguration",
    "CustomResourceDefinition",
    "Deployment",
    "ClusterRoleBinding",
    "RoleBinding",
    "ServiceAccount",
    "Lease",
}
"""Kinds of the installation that `prepare` reads. The installer deletes the rest."""

_HELM_RELEASE: Final = ("meta.helm.sh/release-name", "meta.helm.sh/release-namespace")
_HELM_RECORDS: Final = (("", "Secret"), ("", "ConfigMap"))
"""Kinds in which Helm stores its revisions; its setting chooses one."""

# Objects that Kubernetes creates in every namespace.
_EVERYWHERE: Final = {("ConfigMap", "kube-root-ca.crt"), ("ServiceAccount", "default")}
# Objects that controllers create on behalf of others, and that go with these.
_MADE_FOR_OTHERS: Final = {"Event", "Endpoints", "EndpointSlice", "PodMetrics"}


async def read(
    client: Client, namespace: str, names: SchedulerNames, *, release: bool, prepare: bool
) -> RemovalState:
    """Read the current state; kinds that are not served count as empty. Raises kube errors.

    With `prepare` it reads less, so that few rights suffice.
    """
    kinds = {(it.group, it.kind): it for it in await served(client)}
    items = [it for it in installed(namespace) if not prepare or it.kind in _TO_PREPARE]
    present, groups, records = await asyncio.gather(
        _all_present(client, kinds, items),
        _targets(client, [it for it in kinds.values() if it.group in _GROUPS]),
        _records(client, namespace),
    )
    jobs, jobsets, annotated, *pods_of = await asyncio.gather(
        list_items(client, JOBS, None),
        list_items(client, JOBSETS, None),
        _targets(client, _TOLD),
        *(list_items(client, PODS, None, field=f"spec.schedulerName={it}") for it in names.all),
    )
    pods = [pod for found in pods_of for pod in found]
    owners = await _owners(client, kinds, pods) if release else {}
    found = RemovalState(
        present, groups, jobs, jobsets, pods, owners, records, names=names, annotated=annotated
    )
    if prepare:
        return found
    revisions = await _revisions(client, kinds, namespace, _releases(present, namespace))
    foreign = [it for it in await _foreign(client, kinds, namespace) if it not in revisions]
    quotas = await _quotas(client, kinds)
    return replace(found, quotas=quotas, foreign=foreign, revisions=revisions)


async def _all_present(
    client: Client, kinds: Kinds, items: Sequence[Item]
) -> list[tuple[Target, Object]]:
    found = await asyncio.gather(*(_present(client, kinds, item) for item in items))
    return [
        (target_of(kinds[item.group, item.kind], obj), obj)
        for item, obj in zip(items, found, strict=True)
        if obj is not None
    ]


async def _targets(client: Client, kinds: Sequence[Resource]) -> list[tuple[Target, Object]]:
    lists = await asyncio.gather(*(list_items(client, it, None) for it in kinds))
    found = zip(kinds, lists, strict=True)
    return [(target_of(it, obj), obj) for it, items in found for obj in items]


async def _records(client: Client, namespace: str) -> list[Target]:
    """Return the records of Jobs that are being recreated.

    They are read from Muster's namespace only, where only administrators write. Elsewhere a user
    could have any Job created with the rights of the account that runs the command.
    """
    found = await list_items(client, SECRETS, namespace)
    return [target_of(SECRETS, it) for it in found if RECORD_LABEL in labels_of(it)]


def _releases(present: Iterable[tuple[Target, Object]], namespace: str) -> set[str]:
    """Return the Helm releases in Muster's namespace that own its objects: one, or none."""
    found = set()
    for _, obj in present:
        annotations = mapping(dig(obj, "metadata", "annotations"))
        name, where = (text(annotations.get(key)) for key in _HELM_RELEASE)
        if name and where == namespace:
            found.add(name)
    return found


async def _revisions(
    client: Client, kinds: Kinds, namespace: str, releases: Iterable[str]
) -> list[Target]:
    """Return Helm's revisions of these releases."""
    return [
        target_of(kinds[kind], obj)
        for name in releases
        for kind in _HELM_RECORDS
        for obj in await list_items(client, kinds[kind], namespace)
        if labels_of(obj).get("owner") == "helm" and labels_of(obj).get("name") == name
    ]


async def _present(client: Client, kinds: Kinds, item: Item) -> Object | None:
    resource = kinds.get((item.group, item.kind))
    if resource is None:
        return None
    obj = await get_or_none(client, resource, item.name, item.namespace or None)
    return obj if not item.labelled or labels_of(obj).get(LABEL) == LABEL_VALUE else None


async def _owners(client: Client, kinds: Kinds, pods: Iterable[Object]) -> dict[str, Object]:
    """Return the controllers of the pods that wait, if these have a pod template."""
    wanted: dict[str, tuple[Resource, str, str]] = {}
    for pod in pods:
        reference = controller_of(pod)
        group, _, _ = text(reference.get("apiVersion")).rpartition("/")
        key = (group, text(reference.get("kind")))
        if dig(pod, "spec", "nodeName") or key not in _OWNERS or key not in kinds:
            continue
        where = text(dig(pod, "metadata", "namespace"))
        wanted[text(reference.get("uid"))] = (kinds[key], text(reference.get("name")), where)
    found = await asyncio.gather(*(get_or_none(client, *it) for it in wanted.values()))
    # The UID is compared: an object with the same name may be a new one.
    pairs = zip(wanted, found, strict=True)
    return {uid: obj for uid, obj in pairs if obj and dig(obj, "metadata", "uid") == uid}


async def _quotas(client: Client, kinds: Kinds) -> list[Target]:
    resource = kinds.get(("", "ResourceQuota"))
    if resource is None:
        return []
    found = await list_items(client, resource, None, label=f"{LABEL}={LABEL_VALUE}")
    return [target_of(resource, it) for it in found if dig(it, "metadata", "name") in quotas()]


async def _foreign(client: Client, kinds: Kinds, namespace: str) -> list[Target]:
    """Return objects in Muster's namespace that are not Muster's."""
    ours = {(item.kind, item.name) for item in installed(namespace)} | _EVERYWHERE
    asked = [it for it in kinds.values() if it.namespaced and it.kind not in _MADE_FOR_OTHERS]
    lists = await asyncio.gather(*(_in_namespace(client, it, namespace) for it in asked))
    return [
        target_of(resource, obj)
        for resource, found in zip(asked, lists, strict=True)
        for obj in found
        if (resource.kind, dig(obj, "metadata", "name")) not in ours and _is_foreign(obj)
    ]


def _is_foreign(obj: Object) -> bool:
    """Return true if it has no owner, is not being deleted and has no label of Muster's."""
    labels, meta = labels_of(obj), obj["metadata"]
    goes = meta.get("ownerReferences") or meta.get("deletionTimestamp")
    return not goes and RECORD_LABEL not in labels and labels.get(LABEL) != LABEL_VALUE


async def _in_namespace(client: Client, resource: Resource, namespace: str) -> list[Object]:
    try:
        return await list_items(client, resource, namespace)
    except ServerError:
        return []  # the server of an aggregated API does not respond


async def remaining_definitions(client: Client) -> list[str]:
    """Return Muster's CRDs that still exist, or what blocks their objects. Raises kube errors."""
    crds = [it for it in await list_items(client, CRDS, None) if it["spec"]["group"] in _GROUPS]
    held: list[str] = []
    for crd in crds:
        spec = crd["spec"]
        stored = next(version["name"] for version in spec["versions"] if version["storage"])
        names = spec["names"]
        resource = Resource(spec["group"], stored, names["plural"], names["kind"])
        held += [
            f"{target_of(resource, obj)} has {', '.join(finalizers)}"
            for obj in await list_items(client, resource, None)
            if (finalizers := dig(obj, "metadata", "finalizers"))
        ]
    return held or [f"CustomResourceDefinition {it['metadata']['name']}" for it in crds]
