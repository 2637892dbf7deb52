"""Registration with the API server; `manifests/webhook/` is its only source.

By Service, an administrator installs the manifests, and this process only writes its CA into them.
By URL, the process installs them, each path under its URL, and corrects later changes.
"""

from __future__ import annotations

import base64
import binascii
import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol
from urllib.parse import urlsplit

import structlog

from api.constants import POD_GROUP, WORKLOAD
from api.reading import mapping, text
from api.scheduler_names import USUAL, SchedulerNames
from certs.bundle import conversion_bundle_patch, encoded, webhook_bundle_patch
from certs.material import ServerNames
from kube.base.errors import AlreadyExists, NotFound
from kube.base.packaged import packaged, yaml_objects
from kube.client.meta import Json
from kube.client.patch import PatchBuilder
from kube.client.resources import CRDS, MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS, Resource
from webhooks.server.scheduler_conditions import missing_names, rendered

if TYPE_CHECKING:
    from kube.client.client import Client  # `muster manifests` needs none

log = structlog.get_logger(__name__)

MANIFESTS = packaged("webhooks", "manifests/webhook")

CONVERT = "/convert"
"""The path of the conversion webhook."""

# Kinds with more than one version, whose CRDs therefore name the conversion webhook.
DEFINITIONS = tuple(f"{kind.plural}.{kind.group}" for kind in (WORKLOAD, POD_GROUP))

RESOURCES = {resource.kind: resource for resource in (MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS)}


class RegistrationError(Exception):
    """The registration cannot lead API servers to this process."""


class NotInstalledError(RegistrationError):
    """A configuration is missing, and this process must not install it."""

    def __init__(self, kind: str, name: str) -> None:
        super().__init__(f"{kind} {name} is not installed: apply manifests/webhook")
        self.kind = kind
        self.name = name


@dataclass(frozen=True, slots=True)
class Registered:
    """The registration as read back: the host that API servers call, and their CA (PEM)."""

    host: str
    ca_bundle: bytes
    corrected: bool = False
    """True if this call wrote something, which API servers take a moment to use."""


class _Ensured(NamedTuple):
    """An object as registered; `corrected` is True if this call wrote it."""

    obj: Json
    corrected: bool = False


class Target(Protocol):
    """The way in which API servers reach the webhook."""

    @property
    def names(self) -> ServerNames:
        """The names that the server certificate must have."""

    async def ensure(self, api: Client, manifest: Json, ca_bundle: bytes) -> _Ensured:
        """Return the registered configuration, after correcting it."""

    def conversion(self, definition: Json, ca_bundle: bytes) -> PatchBuilder:
        """Return the patch for a CustomResourceDefinition that is converted by webhook."""


@dataclass(frozen=True, slots=True)
class ServiceTarget:
    """Registration with a Service; an administrator has installed the manifests.

    Without `inject` another component (cert-manager) writes the CA, and the manifests are only
    read.
    """

    name: str = "muster-webhook"
    namespace: str = "muster-system"
    inject: bool = True

    @property
    def names(self) -> ServerNames:
        """The DNS names of the Service."""
        return ServerNames.of_service(self.name, self.namespace)

    async def ensure(self, api: Client, manifest: Json, ca_bundle: bytes) -> _Ensured:
        """Write the CA into the installed configuration. Raises NotInstalledError."""
        resource, name = RESOURCES[manifest["kind"]], manifest["metadata"]["name"]
        try:
            found = await api.get(resource, name)
        except NotFound as error:
            raise NotInstalledError(resource.kind, name) from error
        if not self.inject:
            return _Ensured(found)
        return await _patched(api, resource, found, webhook_bundle_patch(found, ca_bundle))

    def conversion(self, definition: Json, ca_bundle: bytes) -> PatchBuilder:
        """Return the patch that writes the CA."""
        return conversion_bundle_patch(definition, ca_bundle) if self.inject else PatchBuilder()


@dataclass(frozen=True, slots=True)
class UrlTarget:
    """Registration by URL: API servers call this address directly, without a Service."""

    url: str

    def __post_init__(self) -> None:
        """Validate the URL. Raises ValueError for anything but https://HOST[:PORT][/PATH]."""
        parts = urlsplit(self.url)
        if parts.port == 0:
            raise ValueError(f"{self.url!r}: port 0 cannot be called")
        if parts.scheme != "https" or not parts.hostname or parts.query or parts.fragment:
            raise ValueError(f"{self.url!r}: must be https://HOST[:PORT] without a query")

    @property
    def names(self) -> ServerNames:
        """The host of the URL."""
        return ServerNames.of_host(urlsplit(self.url).hostname or "")

    async def ensure(self, api: Client, manifest: Json, ca_bundle: bytes) -> _Ensured:
        """Install the manifest, or correct the differences from it."""
        resource, name = RESOURCES[manifest["kind"]], manifest["metadata"]["name"]
        wanted = self.rewritten(manifest, ca_bundle)
        try:
            found = await api.get(resource, name)
        except NotFound:
            try:
                created = await api.create(resource, wanted)
            # Another replica was faster. Its registration may still need corrections.
            except AlreadyExists:
                found = await api.get(resource, name)
            else:
                log.info("webhooks registered", kind=resource.kind, name=name, url=self.url)
                return _Ensured(created, corrected=True)
        return await _patched(api, resource, found, difference(found, wanted))

    def conversion(self, definition: Json, ca_bundle: bytes) -> PatchBuilder:
        """Return the patch that writes the URL and the CA, instead of the Service."""
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
        """Return the manifest with this URL instead of each Service, and the same path."""
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


async def register(
    api: Client,
    target: Target,
    ca_bundle: bytes,
    manifests: Sequence[Json],
    schedulers: SchedulerNames = USUAL,
) -> Registered:
    """Register `target` and `ca_bundle` (PEM), and return the registration as read back.

    `manifests` are rendered for `schedulers`. Raises RegistrationError, and the errors of
    `kube.base.errors`. It is safe to repeat.
    """
    configs, corrected = [], False
    for manifest in manifests:
        ensured = await target.ensure(api, manifest, ca_bundle)
        lacking = "; ".join(missing_names(ensured.obj, manifest, schedulers))
        # A condition without a configured name would let its pods pass without admission.
        if lacking:
            raise RegistrationError(
                f"{manifest['kind']}: {lacking}. Apply the output of `muster manifests --config "
                "FILE` for the configured schedulerNames"
            )
        configs += [webhook["clientConfig"] for webhook in ensured.obj.get("webhooks") or ()]
        corrected |= ensured.corrected
    for name in DEFINITIONS:
        converted = await _converted(api, target, name, ca_bundle)
        if converted is not None:
            configs.append(converted.obj["spec"]["conversion"]["webhook"]["clientConfig"])
            corrected |= converted.corrected
    # The self-check calls one host with one CA, so it must stand for all webhooks.
    found = {(host_of(config), config.get("caBundle", "")) for config in configs}
    if len(found) != 1:
        raise RegistrationError(
            f"the webhooks must all point to one server, not to {sorted(found)}"
        )
    host, bundle = found.pop()
    try:
        return Registered(host, base64.b64decode(bundle, validate=True), corrected)
    except binascii.Error as error:
        raise RegistrationError("the registered caBundle is not valid base64") from error


async def _converted(api: Client, target: Target, name: str, ca_bundle: bytes) -> _Ensured | None:
    """Return a CRD that is converted by webhook, after correcting it; None for others.

    The readiness of the informers reports a CRD that is not installed.
    """
    try:
        found = await api.get(CRDS, name)
    except NotFound:
        return None
    if found["spec"].get("conversion", {}).get("strategy") != "Webhook":
        return None
    return await _patched(api, CRDS, found, target.conversion(found, ca_bundle))


def load_manifests(schedulers: SchedulerNames = USUAL, folder: Path = MANIFESTS) -> list[Json]:
    """Return the webhook configurations to register, for pods of these schedulers.

    Raises OSError, yaml.YAMLError.
    """
    return [rendered(manifest, schedulers) for manifest in copy.deepcopy(_manifests(folder))]


@cache
def _manifests(folder: Path) -> list[Json]:
    # Cached, as parsing takes longer than many reviews.
    return [obj for obj in yaml_objects(folder) if obj["kind"] in RESOURCES]


def difference(found: Json, wanted: Json) -> PatchBuilder:
    """Return the patch that turns the webhooks of `found` into those of `wanted`."""
    patch = PatchBuilder()
    have, want = found.get("webhooks") or [], wanted["webhooks"]
    # Fields that `wanted` omits count as correct, because the API server fills in defaults.
    if _includes(have, want):
        return patch
    # Fail if another replica has changed it in the meantime.
    patch.at_version(found["metadata"]["resourceVersion"])
    if [entry["name"] for entry in have] != [entry["name"] for entry in want]:
        # The list has other webhooks, so an index would not address the right one.
        return patch.add("/webhooks", want)
    for index, (old, new) in enumerate(zip(have, want, strict=True)):
        if not _includes(old, new):
            patch.replace(f"/webhooks/{index}", new)
    return patch


async def _patched(api: Client, resource: Resource, found: Json, patch: PatchBuilder) -> _Ensured:
    if not patch:
        return _Ensured(found)
    name = found["metadata"]["name"]
    log.info("webhook registration corrected", kind=resource.kind, name=name)
    return _Ensured(await api.patch(resource, name, patch), corrected=True)


def _includes(have: Any, want: Any) -> bool:
    """Return True if `have` has every field of `want` with the same value."""
    if isinstance(want, Mapping) and isinstance(have, Mapping):
        if "clientConfig" in want and set(have["clientConfig"]) != set(want["clientConfig"]):
            # A Service left next to a URL would be invalid.
            return False
        return all(key in have and _includes(have[key], value) for key, value in want.items())
    if isinstance(want, list) and isinstance(have, list):
        return len(have) == len(want) and all(map(_includes, have, want))
    return bool(have == want)


def host_of(config: Mapping[str, Any]) -> str:
    """Return the name by which API servers verify the server of a clientConfig; empty if none."""
    service = mapping(config.get("service"))
    if service:
        return f"{text(service.get('name'))}.{text(service.get('namespace'))}.svc"
    try:
        return urlsplit(text(config.get("url"))).hostname or ""
    except ValueError:
        return ""
