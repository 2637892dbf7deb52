"""Admission: the registered webhooks, the CAs that API servers trust, and requests with dryRun."""

from __future__ import annotations

import asyncio
import base64
import secrets
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from cryptography import x509
from cryptography.exceptions import InvalidSignature

from api.constants import (
    COSCHEDULING,
    FINALIZER_POD_GROUP,
    GROUP,
    POD_GROUP,
    V1ALPHA1,
    V1ALPHA2,
    WORKLOAD,
)
from api.reading import dig, listing, mapping, mappings, text
from certs.material import CA_CERT, SERVER_CERT
from cli.doctor.findings import About, Check, Finding
from cli.doctor.installation import APPLY, Installation
from cli.trees.listing import get_or_none
from kube.base.errors import (
    AlreadyExists,
    ApiError,
    Forbidden,
    Invalid,
    KubeError,
    NotFound,
    ServerError,
)
from kube.client.client import Client
from kube.client.meta import Json
from kube.client.resources import SECRETS, Resource
from webhooks.server.registration import DEFINITIONS, RESOURCES, host_of, load_manifests

SOON: Final = timedelta(days=30)
"""Time before its end by which a certificate should have been renewed."""

_RESTART: Final = (
    "kubectl -n {0} rollout restart deployment muster-webhook, which then registers its CA again"
)


@dataclass(frozen=True, slots=True)
class Registration:
    """The webhook configurations, by kind, and the definitions with conversion by webhook."""

    configurations: Mapping[str, Json | None]
    definitions: Mapping[str, Json | None]

    def client_configs(self) -> Iterator[tuple[About, Mapping[str, Any]]]:
        """Yield each clientConfig by which API servers call the webhook, with its object."""
        for kind, found in self.configurations.items():
            for one in mappings(found, "webhooks"):
                yield About(kind, "muster"), mapping(one.get("clientConfig"))
        for name in DEFINITIONS:
            config = dig(
                self.definitions.get(name), "spec", "conversion", "webhook", "clientConfig"
            )
            if config is not None:
                yield About("CustomResourceDefinition", name), mapping(config)


async def read_registration(client: Client, definitions: Mapping[str, Json | None]) -> Registration:
    """Return the registered objects. Raises kube errors."""
    kinds = RESOURCES.values()
    found = await asyncio.gather(*(get_or_none(client, kind, "muster") for kind in kinds))
    return Registration(dict(zip(RESOURCES, found, strict=True)), definitions)


def check_registration(found: Registration) -> Iterator[Finding]:
    """Check that the configurations are installed and are those of this version."""
    for wanted in load_manifests():
        kind = wanted["kind"]
        check, have = Check("registration", About(kind, "muster")), found.configurations.get(kind)
        if have is None:
            yield check.error("it is not installed: no object is validated or completed", APPLY)
            continue
        entries = {text(one.get("name")): one for one in mappings(have, "webhooks")}
        for one in wanted["webhooks"]:
            if one["name"] not in entries:
                yield check.error(f"webhook {one['name']} is missing", APPLY)
            elif fields := _different(one, entries[one["name"]]):
                yield check.warning(
                    f"webhook {one['name']} differs from this version: {', '.join(fields)}",
                    APPLY,
                )


def _different(wanted: Mapping[str, Any], have: Mapping[str, Any]) -> list[str]:
    # The webhook writes clientConfig itself. An empty field and a missing one mean the same.
    return [
        key
        for key, value in wanted.items()
        if key != "clientConfig" and (have.get(key) or None) != (value or None)
    ]


def check_bundles(found: Registration, namespace: str, now: datetime) -> Iterator[Finding]:
    """Check the CAs that API servers trust: one set everywhere, readable, and not expiring."""
    bundles: dict[str, About] = {}
    restart = _RESTART.format(namespace)
    for about, config in found.client_configs():
        bundles.setdefault(text(config.get("caBundle")), about)
    if len(bundles) > 1:
        names = ", ".join(sorted({str(about) for about in bundles.values()}))
        check = Check("certificates", next(iter(bundles.values())))
        yield check.error(f"API servers trust different CAs: {names}", restart)
    for bundle, about in bundles.items():
        check = Check("certificates", about)
        authorities = certificates_of(bundle)
        if not authorities:
            said = "is not a certificate" if bundle else "is empty"
            yield check.error(f"caBundle {said}", restart)
            continue
        # During a change of CAs a bundle has two. The youngest decides how long it lasts.
        last = max(one.not_valid_after_utc for one in authorities)
        yield from _ending(check, "the CA that API servers trust", last, namespace, now)


def check_server(
    found: Registration, secret: Json | None, where: About, now: datetime
) -> Iterator[Finding]:
    """Check the webhook's own certificate: trusted by API servers, and for the name in use."""
    check = Check("certificates", where)
    configs = [config for _, config in found.client_configs()]
    if secret is None:
        if any("service" in config for config in configs):
            yield check.warning(
                "it does not exist: new replicas of the webhook do not become ready",
                f"kubectl -n {where.namespace} create secret generic {where.name}, which the"
                " webhook then fills; cert-manager creates its own",
            )
        else:
            yield check.info("it does not exist: the webhook is called by URL")
        return
    if not mapping(secret.get("data")) and any("url" in config for config in configs):
        yield check.info(
            "it is empty: a webhook that is called by URL has its certificates in a folder"
        )
        return
    namespace, chain = where.namespace, certificates_of(text(dig(secret, "data", SERVER_CERT)))
    restart = _RESTART.format(namespace)
    if not chain:
        yield check.error(f"{SERVER_CERT} is not a certificate", restart)
        return
    # One bundle suffices: `check_bundles` reports others that differ.
    trusted = [
        one for config in configs[:1] for one in certificates_of(text(config.get("caBundle")))
    ]
    if configs and not any(_signed(chain[0], one) for one in trusted):
        yield check.error(
            "API servers do not trust the webhook's certificate: no CA in caBundle signed it",
            restart,
        )
    names = _names(chain[0])
    if missing := sorted({host_of(config) for config in configs} - names - {""}):
        yield check.error(
            f"the webhook's certificate is not valid for {', '.join(missing)}, which API"
            " servers use",
            restart,
        )
    ends = chain[0].not_valid_after_utc
    yield from _ending(check, "the webhook's certificate", ends, namespace, now)


def _ending(
    check: Check, what: str, ends: datetime, namespace: str, now: datetime
) -> Iterator[Finding]:
    end = f"{ends:%Y-%m-%d %H:%M} UTC"
    said = f"{what} expires on {end}"
    if ends <= now:
        problem = f"{what} expired on {end}"
        yield check.error(problem, _RESTART.format(namespace))
    elif ends - now < SOON:
        yield check.warning(
            f"{said}, and was not renewed in time",
            f"kubectl -n {namespace} logs deployment/muster-webhook, which states the reason",
        )
    else:
        yield check.info(said)


def certificates_of(encoded: str) -> list[x509.Certificate]:
    """Return the certificates of PEM in base64; none if it cannot be read."""
    try:
        return x509.load_pem_x509_certificates(base64.b64decode(encoded, validate=True))
    except ValueError:
        return []


def _signed(certificate: x509.Certificate, authority: x509.Certificate) -> bool:
    try:
        certificate.verify_directly_issued_by(authority)
    except (InvalidSignature, ValueError, TypeError):
        return False
    return True


def _names(certificate: x509.Certificate) -> set[str]:
    try:
        found = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return set()
    addresses = found.get_values_for_type(x509.IPAddress)
    return {*found.get_values_for_type(x509.DNSName), *map(str, addresses)}


def secret_name(installed: Installation) -> str:
    """Return the name of the webhook's certificate Secret: Muster's own, or the mounted one."""
    part = installed.config.webhook
    if part.certificates.mounted is None:
        return part.secret
    for deployment in installed.deployments:
        for volume in listing(dig(deployment, "spec", "template", "spec", "volumes")):
            if name := text(dig(volume, "secret", "secretName")):
                return name
    return part.secret


async def read_certificate(client: Client, name: str, namespace: str) -> Json | None:
    """Return the certificates of a Secret, without its keys. Raises kube errors."""
    found = await get_or_none(client, SECRETS, name, namespace)
    if found is None:
        return None
    # The keys are dropped right here, so that no finding or bundle can contain one.
    data = mapping(found.get("data"))
    return {"data": {key: data[key] for key in (SERVER_CERT, CA_CERT) if key in data}}


@dataclass(frozen=True, slots=True)
class DryRunTrial:
    """A request with dryRun, which stores no object, and its outcome."""

    name: str
    resource: Resource
    outcome: Json | KubeError


VALID, REFUSED, COSCHEDULED = "valid", "refused", "coscheduling"
CONVERTED, CONVERTED_WORKLOAD = "converted", "converted Workload"


def _trial_objects(name: str) -> dict[str, tuple[Resource, Json]]:
    def made(resource: Resource, spec: Json) -> tuple[Resource, Json]:
        head = {"apiVersion": resource.api_version, "kind": resource.kind}
        return resource, {**head, "metadata": {"name": name}, "spec": spec}

    older = Resource(GROUP, V1ALPHA2, POD_GROUP.plural, POD_GROUP.kind)
    oldest = Resource(GROUP, V1ALPHA1, WORKLOAD.plural, WORKLOAD.kind)
    template = {"name": "workers", "policy": {"gang": {"minCount": 1}}}
    policy = {"schedulingPolicy": {"gang": {"minCount": 1}}}
    wrong = {"schedulingConstraints": {"topology": [{"key": "not a label key"}]}}
    return {
        VALID: made(POD_GROUP, policy),
        REFUSED: made(POD_GROUP, policy | wrong),
        CONVERTED: made(older, {"workloadRef": {"name": name}, "podGroupTemplateName": "workers"}),
        CONVERTED_WORKLOAD: made(oldest, {"podGroups": [template]}),
        COSCHEDULED: made(COSCHEDULING, {"subsets": [{"minMember": 1}]}),
    }


async def try_admission(client: Client, namespace: str) -> list[DryRunTrial]:
    """Create groups in a namespace with dryRun: none is stored."""
    # A random name, so that no existing object causes AlreadyExists.
    objects = _trial_objects(f"muster-doctor-{secrets.token_hex(4)}")

    async def trial(name: str, resource: Resource, obj: Json) -> DryRunTrial:
        try:
            return DryRunTrial(
                name, resource, await client.create(resource, obj, namespace, dry_run=True)
            )
        except KubeError as problem:
            return DryRunTrial(name, resource, problem)

    return list(await asyncio.gather(*(trial(name, *one) for name, one in objects.items())))


def check_trials(trials: Iterable[DryRunTrial], namespace: str) -> Iterator[Finding]:
    """Check that valid groups are completed, invalid ones rejected, older ones converted."""
    for trial in trials:
        resource = trial.resource
        about = About(resource.kind, f"{resource.full_name}/{resource.version}", namespace)
        check = Check("admission", about)
        if isinstance(trial.outcome, KubeError):
            yield from _failed(trial, check, trial.outcome)
        elif trial.name == REFUSED:
            yield check.error(
                "an invalid topology key is accepted: the API server does not call the"
                " validating webhook",
                APPLY,
            )
        elif trial.name == VALID and not _completed(trial.outcome):
            yield check.error(
                "a new group gets no finalizer: the API server does not call the mutating webhook",
                APPLY,
            )


def _completed(obj: Json) -> bool:
    return FINALIZER_POD_GROUP in listing(dig(obj, "metadata", "finalizers"))


def _failed(trial: DryRunTrial, check: Check, problem: KubeError) -> Iterator[Finding]:
    what = "converted" if trial.name in {CONVERTED, CONVERTED_WORKLOAD} else "created"
    called = isinstance(problem, ApiError) and "webhook" in problem.message
    # The expected outcome of this trial.
    if trial.name == REFUSED and isinstance(problem, (Invalid, Forbidden)) and _by_rule(problem):
        return
    if isinstance(problem, NotFound) and not problem.name:
        return  # the kind is not served: the check of the definitions reports it
    if isinstance(problem, Invalid) and any(_OFF in one.message for one in problem.causes):
        return  # the check of the feature gates reports it
    if isinstance(problem, NotFound):
        yield check.warning(
            f"the request could not be tested: {problem}", "use another --trial-namespace"
        )
    elif isinstance(problem, ServerError) and called:
        yield check.error(
            f"no object can be {what}: {problem.message}",
            "check that the webhook runs, that API servers reach it, and that its certificates are"
            " valid (see the other findings)",
        )
    elif isinstance(problem, (Forbidden, AlreadyExists)):
        yield check.warning(
            f"the request could not be tested: {problem}",
            "run muster doctor as a user who can create groups, or use another --trial-namespace",
        )
    else:
        yield check.error(f"a valid request fails: {problem}", APPLY)


_OFF: Final = "feature gate"


def _by_rule(problem: ApiError) -> bool:
    return "topology" in problem.message or any("topology" in one.field for one in problem.causes)
