"""Registering with the API server: `manifests/webhook/` is the only source of what is registered.

By Service, an administrator installs the manifests and this process only puts its CA into
them. By URL, the process installs them itself, each path under its URL, and keeps them as the
manifests say.
"""

from __future__ import annotations

import base64
import binascii
import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import urlsplit

import structlog

from api.constants import POD_GROUP, WORKLOAD
from api.scheduler_names import USUAL, SchedulerNames
from certs.bundle import conversion_bundle_patch, encoded, webhook_bundle_patch
from certs.material import ServerNames
from kube.base.errors import AlreadyExists, NotFound
from kube.base.packaged import packaged, yaml_objects
from kube.client.meta import Json
from kube.client.object_client import ObjectClient
from kube.client.patch import PatchBuilder
from kube.client.resources import CRDS, MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS, Resource
from webhooks.server.scheduler_conditions import missing_names, rendered

log = structlog.get_logger(__name__)

MANIFESTS = packaged("webhooks", "manifests/webhook")

CONVERT = "/convert"
"""The path of the conversion webhook."""

# The kinds that have more than one version.
DEFINITIONS = tuple(f"{kind.plural}.{kind.group}" for kind in (WORKLOAD, POD_GROUP))

RESOURCES = {resource.kind: resource for resource in (MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS)}


class RegistrationError(Exception):
    """What is registered cannot lead API servers to this process."""


class NotInstalledError(RegistrationError):
    """A configuration is missing, and installing it is not this process's task."""

    def __init__(self, kind: str, name: str) -> None:
        super().__init__(f"{kind} {name} is not installed: apply manifests/webhook")
        self.kind = kind
        self.name = name


@dataclass(frozen=True, slots=True)
class Registered:
    """What API servers use, as read back: whom they call, and which CA they trust (PEM)."""

    host: str
    ca_bundle: bytes
    corrected: bool = False
    """Whether something had to be written: API servers take a moment to use it."""


class Target(Protocol):
    """How API servers reach the webhook."""

    @property
    def names(self) -> ServerNames:
        """The names that the server certificate must have."""

    async def ensure(self, api: ObjectClient, manifest: Json, ca_bundle: bytes) -> Json:
        """The configuration as registered, corrected where it differed."""

    def conversion(self, definition: Json, ca_bundle: bytes) -> PatchBuilder:
        """What must change in a CustomResourceDefinition that is converted by webhook."""


@dataclass(frozen=True, slots=True)
class ServiceTarget:
    """Through a Service; the manifests were installed by an administrator.

    Without `inject`, someone else (cert-manager) puts the CA into them, and they are only read.
    """

    name: str = "muster-webhook"
    namespace: str = "muster-system"
    inject: bool = True

    @property
    def names(self) -> ServerNames:
        """The Service's DNS names."""
        return ServerNames.of_service(self.name, self.namespace)

    async def ensure(self, api: ObjectClient, manifest: Json, ca_bundle: bytes) -> Json:
        """Put the CA into what is installed. Raises NotInstalledError."""
        resource, name = RESOURCES[manifest["kind"]], manifest["metadata"]["name"]
        try:
            found = await api.get(resource, name)
        except NotFound as error:
            raise NotInstalledError(resource.kind, name) from error
        if not self.inject:
            return found
        return await _patched(api, resource, found, webhook_bundle_patch(found, ca_bundle))

    def conversion(self, definition: Json, ca_bundle: bytes) -> PatchBuilder:
        """The CA."""
        return conversion_bundle_patch(definition, ca_bundle) if self.inject else PatchBuilder()


@dataclass(frozen=True, slots=True)
class UrlTarget:
    """By URL: API servers call this address directly, without any Service."""

    url: str

    def __post_init__(self) -> None:
        """Raises ValueError for anything but https://HOST[:PORT][/PATH]."""
        parts = urlsplit(self.url)
        if parts.port == 0:
            raise ValueError(f"{self.url!r}: port 0 cannot be called")
        if parts.scheme != "https" or not parts.hostname or parts.query or parts.fragment:
            raise ValueError(f"{self.url!r}: a webhook needs https://HOST[:PORT], no query")

    @property
    def names(self) -> ServerNames:
        """The URL's host."""
        return ServerNames.of_host(urlsplit(self.url).hostname or "")

    async def ensure(self, api: ObjectClient, manifest: Json, ca_bundle: bytes) -> Json:
        """Install the manifest, or change what differs from it."""
        resource, name = RESOURCES[manifest["kind"]], manifest["metadata"]["name"]
        wanted = self.rewritten(manifest, ca_bundle)
        try:
            found = await api.get(resource, name)
        except NotFound:
            try:
                created = await api.create(resource, wanted)
            except AlreadyExists:
                found = await api.get(resource, name)
            else:
                log.info("webhooks registered", kind=resource.kind, name=name, url=self.url)
                return created
        return await _patched(api, resource, found, difference(found, wanted))

    def conversion(self, definition: Json, ca_bundle: bytes) -> PatchBuilder:
        """The URL instead of the Service, and the CA."""
        wanted = {
            "url": self.url.rstrip("/") + CONVERT,
            "caBundle": encoded(ca_bundle),
        }
        patch = PatchBuilder()
        if definition["spec"]["conversion"]["webhook"]["clientConfig"] != wanted:
            patch.at_version(definition["metadata"]["resourceVersion"])
            patch.replace("/spec/conversion/webhook/clientConfig", wanted)
        return patch

    def rewritten(self, manifest: Json, ca_bundle: bytes) -> Json:
        """The manifest with each Service replaced by this URL and the same path."""
        base = self.url.rstrip("/")
        return {
            **manifest,
            "webhooks": [
                {
                    **webhook,
                    "clientConfig": {
                        "url": base + webhook["clientConfig"]["service"]["path"],
                        "caBundle": encoded(ca_bundle),
                    },
                }
                for webhook in manifest["webhooks"]
            ],
        }


class _WriteTracker:
    """Passes calls on, and records whether anything was written."""

    def __init__(self, api: ObjectClient) -> None:
        self._api = api
        self.wrote = False

    async def get(self, resource: Resource, name: str, namespace: str | None = None) -> Json:
        return await self._api.get(resource, name, namespace)

    async def create(self, resource: Resource, obj: Json, namespace: str | None = None) -> Json:
        self.wrote = True
        return await self._api.create(resource, obj, namespace)

    async def patch(
        self, resource: Resource, name: str, ops: PatchBuilder, namespace: str | None = None
    ) -> Json:
        self.wrote = True
        return await self._api.patch(resource, name, ops, namespace)


async def register(
    api: ObjectClient,
    target: Target,
    ca_bundle: bytes,
    manifests: Sequence[Json],
    schedulers: SchedulerNames = USUAL,
) -> Registered:
    """Make API servers call `target` and trust `ca_bundle` (PEM); returns what is registered.

    `manifests` are rendered for `schedulers`. Raises RegistrationError, and the errors of
    `kube.base.errors`. Safe to repeat.
    """
    tracker = _WriteTracker(api)
    configs = []
    for manifest in manifests:
        ensured = await target.ensure(tracker, manifest, ca_bundle)
        lacking = "; ".join(missing_names(ensured, manifest, schedulers))
        if lacking:
            raise RegistrationError(
                f"{manifest['kind']}: {lacking}: apply what `muster manifests --config FILE`"
                " prints for the configured schedulerNames"
            )
        configs += [webhook["clientConfig"] for webhook in ensured.get("webhooks") or ()]
    configs += [
        config
        for name in DEFINITIONS
        for config in await _converted(tracker, target, name, ca_bundle)
    ]
    found = {(_host(config), config.get("caBundle", "")) for config in configs}
    if len(found) != 1:
        raise RegistrationError(f"the webhooks do not all point to one server: {sorted(found)}")
    host, bundle = found.pop()
    try:
        return Registered(host, base64.b64decode(bundle, validate=True), tracker.wrote)
    except binascii.Error as error:
        raise RegistrationError("the registered caBundle is not base64") from error


async def _converted(api: ObjectClient, target: Target, name: str, ca_bundle: bytes) -> list[Json]:
    """The clientConfig of a definition that is converted by webhook, corrected.

    A definition that is not installed is reported by the readiness of the informers.
    """
    try:
        found = await api.get(CRDS, name)
    except NotFound:
        return []
    if found["spec"].get("conversion", {}).get("strategy") != "Webhook":
        return []
    found = await _patched(api, CRDS, found, target.conversion(found, ca_bundle))
    return [found["spec"]["conversion"]["webhook"]["clientConfig"]]


def load_manifests(schedulers: SchedulerNames = USUAL, folder: Path = MANIFESTS) -> list[Json]:
    """The webhook configurations to register, for pods of these schedulers.

    Raises OSError, yaml.YAMLError.
    """
    return [rendered(manifest, schedulers) for manifest in copy.deepcopy(_manifests(folder))]


@cache
def _manifests(folder: Path) -> list[Json]:
    """Parsed once: it takes longer than many reviews."""
    return [obj for obj in yaml_objects(folder) if obj["kind"] in RESOURCES]


def difference(found: Json, wanted: Json) -> PatchBuilder:
    """The patch that makes the webhooks of `found` those of `wanted`; nothing else is touched.

    Fields that `wanted` leaves out count as right: the API server fills in defaults.
    """
    patch = PatchBuilder()
    have, want = found.get("webhooks") or [], wanted["webhooks"]
    if _includes(have, want):
        return patch
    patch.at_version(found["metadata"]["resourceVersion"])
    if [entry["name"] for entry in have] != [entry["name"] for entry in want]:
        return patch.add("/webhooks", want)
    for index, (old, new) in enumerate(zip(have, want, strict=True)):
        if not _includes(old, new):
            patch.replace(f"/webhooks/{index}", new)
    return patch


async def _patched(api: ObjectClient, resource: Resource, found: Json, patch: PatchBuilder) -> Json:
    if not patch:
        return found
    name = found["metadata"]["name"]
    log.info("webhook registration corrected", kind=resource.kind, name=name)
    return await api.patch(resource, name, patch)


def _includes(have: Any, want: Any) -> bool:
    """Whether `have` has every field of `want` with the same value."""
    if isinstance(want, Mapping) and isinstance(have, Mapping):
        if "clientConfig" in want and set(have["clientConfig"]) != set(want["clientConfig"]):
            return False  # a Service left beside a URL would be invalid
        return all(key in have and _includes(have[key], value) for key, value in want.items())
    if isinstance(want, list) and isinstance(have, list):
        return len(have) == len(want) and all(map(_includes, have, want))
    return bool(have == want)


def _host(config: Mapping[str, Any]) -> str:
    """The name by which an API server verifies the server of a clientConfig."""
    service = config.get("service")
    if service:
        return f"{service['name']}.{service['namespace']}.svc"
    return urlsplit(config["url"]).hostname or ""
