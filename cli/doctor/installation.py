"""The installed parts: versions, definitions, Deployments and the pods of Muster."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import msgspec

from api.reading import condition_of, dig, integer, is_true, listing, mapping, mappings, text
from cli.config.config import File
from cli.doctor.findings import About, Check, Finding
from cli.doctor.kubernetes import OLDEST, missing_features
from cli.manifests.packaged_manifests import definitions
from cli.trees.listing import get_or_none
from kube.base.errors import ConfigError
from kube.client.client import Client
from kube.client.decoding import decode_mapping
from kube.client.meta import Json
from kube.client.paging import all_of
from kube.client.resources import CONFIG_MAPS, CRDS, DEPLOYMENTS, PODS
from kube.client.server_version import release_in

PARTS: Final = ("webhook", "controller", "scheduler")
CONSOLE: Final = "console"
"""A part that is optional."""
SELECTOR: Final = "app.kubernetes.io/name=muster"
APPLY: Final = "kubectl apply -k manifests/base (or the overlay that you use)"
APPLY_CONSOLE: Final = "kubectl apply -k manifests/console"
APPLY_NATIVE: Final = "kubectl apply -f manifests/base/native-groups-controller-rbac.yaml"
_UPGRADE: Final = "helm upgrade {0} charts/muster --namespace {1} --reset-then-reuse-values"
_RELEASE: Final = "meta.helm.sh/release-name", "meta.helm.sh/release-namespace"

_CRASHING: Final = {
    "CrashLoopBackOff",
    "CreateContainerConfigError",
    "CreateContainerError",
    "ErrImagePull",
    "ImagePullBackOff",
    "InvalidImageName",
    "RunContainerError",
}
_MOST: Final = 200
"""Deployments and pods of Muster that are read."""

_RESTARTS: Final = 3
"""Restarts of a container up to which there is no finding."""


@dataclass(frozen=True, slots=True)
class Installation:
    """The Deployments and pods in Muster's namespace, and their configuration."""

    namespace: str
    deployments: Sequence[Json] = ()
    pods: Sequence[Json] = ()
    config: File = field(default_factory=File)

    @property
    def accounts(self) -> dict[str, str]:
        """The account of each part: those of the Deployments, or else those of the manifests.

        The console has one only if a Deployment runs it.
        """
        found = {
            part: text(dig(one, "spec", "template", "spec", "serviceAccountName")) or "default"
            for one in self.deployments
            for part in parts_of(one)
        }
        if found.keys() <= {CONSOLE}:
            found |= {part: f"muster-{part}" for part in PARTS}
        return found

    @property
    def release(self) -> tuple[str, str] | None:
        """Name and namespace of the Helm release of the Deployments, if there is one."""
        for one in self.deployments:
            name, namespace = (text(dig(one, "metadata", "annotations", key)) for key in _RELEASE)
            if name and namespace:
                return name, namespace
        return None

    def advised(self, findings: Iterable[Finding]) -> Iterator[Finding]:
        """Yield the findings; a Helm release is upgraded instead of applying manifests."""
        release = self.release
        for one in findings:
            if release is not None and one.action in (APPLY, APPLY_CONSOLE, APPLY_NATIVE):
                yield replace(one, action=_UPGRADE.format(*release))
            else:
                yield one


async def read_installation(client: Client, namespace: str) -> Installation:
    """Return the Deployments, pods and configuration of Muster. Raises kube errors."""
    chosen = {"label_selector": SELECTOR}
    deployments, pods, config = await asyncio.gather(
        all_of(client, DEPLOYMENTS, namespace, most=_MOST, **chosen),
        all_of(client, PODS, namespace, most=_MOST, **chosen),
        _configuration(client, namespace),
    )
    return Installation(namespace, deployments, pods, config)


async def _configuration(client: Client, namespace: str) -> File:
    return configuration_of(await get_or_none(client, CONFIG_MAPS, "muster", namespace))


def configuration_of(config_map: Json | None) -> File:
    """Return the configuration file in a ConfigMap. Raises ConfigError."""
    written = text(dig(config_map, "data", "muster.yaml"))
    try:
        return msgspec.yaml.decode(written or "{}", type=File)
    except msgspec.DecodeError as problem:
        raise ConfigError(f"ConfigMap muster, muster.yaml: {problem}") from problem


def parts_of(deployment: Json) -> tuple[str, ...]:
    """Return the parts that a Deployment runs, by its first argument that names a part."""
    for container in mappings(deployment, "spec", "template", "spec", "containers"):
        for word in (*listing(container.get("command")), *listing(container.get("args"))):
            if word == "all":
                return PARTS
            if word in PARTS or word == CONSOLE:
                return (str(word),)
    return ()


def check_parts(found: Installation) -> Iterator[Finding]:
    """Check that each part has a Deployment, with enough replicas and one version."""
    check = Check("parts", About("Namespace", found.namespace))
    if not found.deployments:
        yield check.info(
            "it has no Deployment of Muster: its processes run elsewhere, or not at all",
            "use --system-namespace for another namespace, and --health URL for"
            " processes elsewhere",
        )
        return
    for part in PARTS:
        if not any(part in parts_of(one) for one in found.deployments):
            yield check.error(f"no Deployment runs the {part}", APPLY)
    images = {image for one in found.deployments for image in _images(one)}
    if len(images) > 1:
        yield check.warning(
            f"parts of different versions run at the same time: {', '.join(sorted(images))}",
            "finish the upgrade: use the same image in all Deployments",
        )
    for one in found.deployments:
        yield from _replicas(one)


def _images(deployment: Json) -> Iterator[str]:
    for container in mappings(deployment, "spec", "template", "spec", "containers"):
        yield text(container.get("image"))


def _replicas(deployment: Json) -> Iterator[Finding]:
    about = About.of("Deployment", deployment)
    check, name, namespace = Check("parts", about), about.name, about.namespace
    wanted = integer(dig(deployment, "spec", "replicas"))
    wanted = 1 if wanted is None else wanted
    status = mapping(deployment.get("status"))
    ready = integer(status.get("availableReplicas")) or 0
    said = f"{', '.join(_images(deployment))}: {ready} of {wanted} replicas are available"
    look = f"kubectl -n {namespace} describe deployment {name}"
    if wanted == 0:
        yield check.error(
            "it is scaled to 0", f"kubectl -n {namespace} scale deployment {name} --replicas=2"
        )
    # A cluster without a Deployment controller, such as the embedded one, never writes a status.
    elif "observedGeneration" not in status:
        yield check.info(
            "no Deployment controller has processed it: it has no replicas",
            "use --health URL for processes that run outside of the cluster",
        )
    elif ready == 0:
        yield check.error(said, look)
    elif ready < wanted:
        yield check.warning(said, look)
    else:
        yield check.info(said)


def check_pods(pods: Iterable[Json]) -> Iterator[Finding]:
    """Check the pods of Muster for crashes, start errors, and a missing node."""
    for pod in pods:
        about = About.of("Pod", pod)
        check = Check("pods", about)
        if text(dig(pod, "status", "phase")) == "Pending" and not dig(pod, "spec", "nodeName"):
            look = f"kubectl -n {about.namespace} describe pod {about.name}"
            yield check.error("it has no node yet", look)
        for status in mappings(pod, "status", "containerStatuses"):
            yield from _container(check, status)


def _container(check: Check, status: Mapping[str, Any]) -> Iterator[Finding]:
    reason = text(dig(status, "state", "waiting", "reason"))
    restarts = integer(status.get("restartCount")) or 0
    logs = f"kubectl -n {check.about.namespace} logs {check.about.name} --previous"
    if reason in _CRASHING:
        message = text(dig(status, "state", "waiting", "message"))
        describe = f"kubectl -n {check.about.namespace} describe pod {check.about.name}"
        look = logs if reason == "CrashLoopBackOff" else describe
        yield check.error(f"its container does not run: {reason}: {message}", look)
    elif restarts > _RESTARTS:
        why = text(dig(status, "lastState", "terminated", "reason")) or "unknown"
        yield check.warning(
            f"its container was restarted {restarts} times, last reason: {why}", logs
        )


async def read_definitions(client: Client) -> dict[str, Json | None]:
    """Return each of our definitions as installed; None for a missing one. Raises kube errors."""
    names = [_name(one) for one in definitions()]
    found = await asyncio.gather(*(get_or_none(client, CRDS, name) for name in names))
    return dict(zip(names, found, strict=True))


def check_definitions(found: Mapping[str, Json | None]) -> Iterator[Finding]:
    """Check that each definition is installed, established, and has this release's versions."""
    for wanted in definitions():
        name = _name(wanted)
        have, check = found.get(name), Check("definitions", About("CustomResourceDefinition", name))
        if have is None:
            yield check.error("it is not installed", APPLY)
            continue
        yield from _conditions(check, have)
        yield from _versions(check, wanted, have)
        strategy = [
            text(dig(one, "spec", "conversion", "strategy")) or "None" for one in (wanted, have)
        ]
        if strategy[0] != strategy[1]:
            problem = f"objects are converted by {strategy[1]} instead of {strategy[0]}"
            yield check.error(problem, APPLY)


def _conditions(check: Check, have: Json) -> Iterator[Finding]:
    if is_true(have, "Established"):
        return
    told = text(condition_of(have, "NamesAccepted").get("message"))
    yield check.error(
        f"it is not established{f': {told}' if told else ''}",
        "delete the definition that has the same names, or wait if this one is new",
    )


def _versions(check: Check, wanted: Json, have: Json) -> Iterator[Finding]:
    new, old = _served(wanted), _served(have)
    if missing := sorted(new.keys() - old.keys()):
        yield check.error(f"it does not serve {', '.join(missing)}", APPLY)
    (kept,) = (version for version, stored in new.items() if stored)
    if not old.get(kept, True):
        yield check.error(f"objects are not stored as {kept}", APPLY)
    stored = [text(one) for one in listing(dig(have, "status", "storedVersions"))]
    there = {text(one.get("name")) for one in mappings(have, "spec", "versions")}
    if lost := sorted(set(stored) - there):
        yield check.error(
            f"objects may be stored as {', '.join(lost)}, which the definition no longer has",
            "restore that version, rewrite all objects, and remove it from status.storedVersions",
        )
    elif older := sorted(set(stored) - {kept}):
        yield check.info(
            f"objects may still be stored as {', '.join(older)}; new ones are stored as {kept}",
            "no action now; rewrite all objects before that version is removed",
        )


def _served(definition: Json) -> dict[str, bool]:
    """Return the served versions, each with whether it is the stored one."""
    return {
        text(one.get("name")): one.get("storage") is True
        for one in mappings(definition, "spec", "versions")
        if one.get("served") is True
    }


async def read_version(client: Client) -> Json:
    """Return the API server's own version. Raises kube errors."""
    return decode_mapping(await client.request("GET", "/version"))


def check_version(said: Json, ours: str) -> Iterator[Finding]:
    """Check the version of Kubernetes and its features; report this command's version."""
    check = Check("versions", About("Cluster", "version"))
    known = text(said.get("gitVersion")) or "unknown"
    release = release_in(said)
    if release != (0, 0):
        if release < OLDEST:
            oldest = ".".join(map(str, OLDEST))
            yield check.error(f"Kubernetes {known} is older than {oldest}", "upgrade the cluster")
            return
        yield from missing_features(release)
    yield check.info(f"Kubernetes {known}, muster doctor {ours}")


def _name(obj: Json) -> str:
    return text(dig(obj, "metadata", "name"))
