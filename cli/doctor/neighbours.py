"""Other gang schedulers in the cluster, and the pods that they would claim."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from api.constants import (
    FOREIGN_GROUPS_ENABLED,
    LABEL_FOREIGN_GROUPS,
    NATIVE_GROUP_KINDS,
    NATIVE_POD_GROUP,
    PLUGINS_POD_GROUP,
)
from api.features import USUAL, Feature, FeatureGates
from api.integration.common.native import UNSERVED_TEXT, GroupsApi
from api.reading import dig, labels_of, listing, mapping, text
from cli.doctor.findings import About, Check, Finding
from kube.base.errors import NotFound
from kube.client.client import Client
from kube.client.decoding import decode_mapping
from kube.client.meta import Json

_SERVE: Final = "turn it on as docs/native-groups.md describes, or set groups.api to muster"
NATIVE: Final = "scheduling.k8s.io"
_NAMED: Final = 5
"""Names that a finding lists. Further ones are counted."""


@dataclass(frozen=True, slots=True)
class Neighbour:
    """A gang scheduler: what it would claim, and how to keep it and Muster apart."""

    name: str
    claims: str
    action: str


# By the API group of their definitions, or a suffix of it.
KNOWN: Final = {
    "kueue.x-k8s.io": Neighbour(
        "Kueue",
        "it suspends Jobs and JobSets with the label kueue.x-k8s.io/queue-name, or all if"
        " manageJobsWithoutQueueName is set; its kind Workload has the same plural as Muster's",
        "use workloads.scheduling.muster.dev for Muster's",
    ),
    "scheduling.volcano.sh": Neighbour(
        "Volcano",
        "it schedules pods whose schedulerName is volcano; its PodGroup has the same plural as"
        " Muster's",
        "do not use that schedulerName for pods of Muster's groups; use"
        " podgroups.scheduling.muster.dev for Muster's",
    ),
    "scheduling.run.ai": Neighbour(
        "KAI",
        "it schedules pods whose schedulerName is kai-scheduler, and creates a PodGroup for each"
        " of their owners; its kind has the same plural as Muster's",
        "do not use that schedulerName for pods of Muster's groups; use"
        " podgroups.scheduling.muster.dev for Muster's",
    ),
    PLUGINS_POD_GROUP.group: Neighbour(
        "scheduler-plugins",
        f"it schedules pods with the label {PLUGINS_POD_GROUP.group}/pod-group and its"
        " schedulerName; Muster takes such pods of the default scheduler in namespaces with the"
        f" label {LABEL_FOREIGN_GROUPS}",
        "do not set that label on namespaces whose pods its scheduler must schedule",
    ),
}
_KUBE_SCHEDULER: Final = Neighbour(
    "gang scheduling of kube-scheduler",
    "it schedules pods of the default scheduler that name a group in their spec, except where a"
    f" namespace has the label {LABEL_FOREIGN_GROUPS}: {FOREIGN_GROUPS_ENABLED}",
    "set that label on namespaces whose pods Muster must schedule",
)

_SERVED: Final = (
    "Kubernetes serves PodGroups of its own: Muster schedules those whose pods have one of its"
    " schedulerNames, kube-scheduler those of its own pods"
)
_NAMES: Final = "`kubectl get podgroups` shows these, `kubectl get mpg` those of Muster's own API"


def check_definitions_of_others(definitions: Iterable[Json]) -> Iterator[Finding]:
    """Yield a finding for each scheduler whose definitions are installed."""
    found: dict[str, list[str]] = {}
    for one in definitions:
        name = text(dig(one, "metadata", "name"))
        group = name.partition(".")[2]
        for known in KNOWN:
            if group == known or group.endswith(f".{known}"):
                found.setdefault(known, []).append(name)
    for group, names in found.items():
        yield _finding(KNOWN[group], About("CustomResourceDefinition", min(names)))


def check_native(
    served: Mapping[str, Iterable[str]], gates: FeatureGates = USUAL
) -> Iterator[Finding]:
    """Yield a finding if Kubernetes serves groups of its own.

    `served` has the plurals of each version of its API group. `gates` are Muster's.
    """
    versions = (
        {kind.version for kind in NATIVE_GROUP_KINDS} if Feature.NATIVE_GROUPS in gates else ()
    )
    for version, plurals in served.items():
        if {"workloads", "podgroups"} & set(plurals):
            about = About("APIGroup", f"{NATIVE}/{version}")
            if version not in versions:
                yield _finding(_KUBE_SCHEDULER, about)
            elif version == NATIVE_POD_GROUP.version and "podgroups" in plurals:
                yield Check("neighbours", about).info(_SERVED, _NAMES)


def check_groups_api(served: Mapping[str, Iterable[str]], api: GroupsApi) -> Iterator[Finding]:
    """Yield a finding if new owners may get native groups, and these are not served.

    `served` is as for `check_native`.
    """
    if api is GroupsApi.MUSTER or "podgroups" in served.get(NATIVE_POD_GROUP.version, ()):
        return
    about = Check("neighbours", About("APIGroup", f"{NATIVE}/{NATIVE_POD_GROUP.version}"))
    problem = f"groups.api is {api}, and {UNSERVED_TEXT}"
    if api is GroupsApi.NATIVE:
        yield about.error(f"{problem}: new Jobs and JobSets wait", _SERVE)
    else:
        yield about.info(f"{problem}: new Jobs and JobSets get Muster's groups", _SERVE)


def check_namespaces(namespaces: Iterable[Json]) -> Iterator[Finding]:
    """Yield the namespaces whose pods for other gang schedulers Muster takes over."""
    names = [
        text(dig(one, "metadata", "name"))
        for one in namespaces
        if labels_of(one).get(LABEL_FOREIGN_GROUPS) == FOREIGN_GROUPS_ENABLED
    ]
    if names:
        more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
        yield Check("neighbours", About("Label", LABEL_FOREIGN_GROUPS)).info(
            "Muster schedules pods of other schedulers' groups in"
            f" {', '.join(sorted(names)[:_NAMED])}{more}",
        )


def _finding(neighbour: Neighbour, about: About) -> Finding:
    return Check("neighbours", about).info(
        f"{neighbour.name} is installed: {neighbour.claims}", neighbour.action
    )


async def read_native(client: Client) -> dict[str, list[str]]:
    """Return the resources of Kubernetes' own API group, by version. Raises kube errors."""
    try:
        group = decode_mapping(await client.request("GET", f"/apis/{NATIVE}"))
    except NotFound:
        return {}
    versions = [text(mapping(one).get("version")) for one in listing(group.get("versions"))]
    return {one: await _plurals(client, one) for one in versions if one}


async def _plurals(client: Client, version: str) -> list[str]:
    try:
        found = decode_mapping(await client.request("GET", f"/apis/{NATIVE}/{version}"))
    except NotFound:
        return []
    return [text(mapping(one).get("name")) for one in listing(found.get("resources"))]
