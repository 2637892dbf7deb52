"""RBAC: rights that Muster's roles grant and its accounts lack."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from api.constants import NATIVE_GROUP
from api.features import Feature
from api.integration.common.native import GroupsApi
from api.reading import dig
from cli.config.config import File
from cli.doctor.findings import About, Check, Finding
from cli.doctor.installation import APPLY, APPLY_CONSOLE, APPLY_NATIVE, CONSOLE, Installation
from cli.manifests.packaged_manifests import Object, roles
from kube.client.client import Client
from kube.client.meta import Json
from kube.client.resources import PRIORITY_CLASSES
from kube.client.resources import SUBJECT_ACCESS_REVIEWS as REVIEWS

_AT_ONCE: Final = 16
"""Concurrent access reviews."""


@dataclass(frozen=True, slots=True, order=True)
class Right:
    """One verb that an account needs. An empty namespace means all, an empty name any object."""

    part: str
    group: str
    resource: str
    verb: str
    name: str = ""
    namespace: str = ""

    @property
    def on(self) -> str:
        """The object in RBAC's notation: `pods/status`, `leases.coordination.k8s.io name`."""
        plural, slash, sub = self.resource.partition("/")
        group = f".{self.group}" if self.group else ""
        named = f" {self.name}" if self.name else ""
        return f"{plural}{group}{slash}{sub}{named}"

    @property
    def way_out(self) -> str:
        """The command that grants the right."""
        if self.part == CONSOLE:
            return APPLY_CONSOLE
        return APPLY_NATIVE if _is_native_group(self) and self.part != "scheduler" else APPLY


def needed(installed: Installation) -> list[Right]:
    """Return the rights of the manifests, including the console's if it is installed.

    With certificates from others, the webhook writes none.
    """
    mounted = installed.config.webhook.certificates.mounted is not None
    leads = installed.config.leader_election.enabled
    bindings = (obj for obj in roles() if obj["kind"].endswith("RoleBinding"))
    found = {right for binding in bindings for right in _given(binding, installed.namespace)}
    return sorted(
        right
        for right in found
        if (right.part != CONSOLE or CONSOLE in installed.accounts)
        and not (
            mounted
            and right.part == "webhook"
            and (right.verb == "patch" or right.resource == "secrets")
        )
        and (leads or right.resource != "leases")
        and (not _is_native_group(right) or _has_native_groups(right, installed.config))
    )


def _is_native_group(right: Right) -> bool:
    return right.group == NATIVE_GROUP and right.resource != PRIORITY_CLASSES.plural


def _has_native_groups(right: Right, config: File) -> bool:
    """Return True if the part schedules native groups, or creates them."""
    if right.part == "scheduler":
        return Feature.NATIVE_GROUPS in config.gates
    return config.groups.api is not GroupsApi.MUSTER


def _given(binding: Object, namespace: str) -> Iterator[Right]:
    kind, name = binding["roleRef"]["kind"], binding["roleRef"]["name"]
    role = next(obj for obj in roles() if (obj["kind"], obj["metadata"]["name"]) == (kind, name))
    within = namespace if binding["kind"] == "RoleBinding" else ""
    for subject in binding["subjects"]:
        part = str(subject["name"]).removeprefix("muster-")
        for rule in role["rules"]:
            for group in rule["apiGroups"]:
                for resource in rule["resources"]:
                    for verb in rule["verbs"]:
                        for one in rule.get("resourceNames") or ("",):
                            yield Right(part, group, resource, verb, one, within)


async def read_access(
    client: Client, rights: Iterable[Right], installed: Installation
) -> dict[Right, bool]:
    """Return for each right whether the account of its part has it. Raises kube errors."""
    accounts, limit = installed.accounts, asyncio.Semaphore(_AT_ONCE)

    async def ask(right: Right) -> tuple[Right, bool]:
        async with limit:
            body = review(right, accounts[right.part], installed.namespace)
            response = await client.create(REVIEWS, body)
        return right, dig(response, "status", "allowed") is True

    asked = [right for right in rights if right.part in accounts]
    return dict(await asyncio.gather(*map(ask, asked)))


def review(right: Right, account: str, namespace: str) -> Json:
    """Return the SubjectAccessReview that asks for a right of an account of `namespace`."""
    resource, _, sub = right.resource.partition("/")
    about = {
        "namespace": right.namespace,
        "verb": right.verb,
        "group": right.group,
        "resource": resource,
        "subresource": sub,
        "name": right.name,
    }
    return {
        "apiVersion": REVIEWS.api_version,
        "kind": REVIEWS.kind,
        "spec": {
            # The groups that the API server adds to a service account's token. RBAC may bind to
            # them, too.
            "user": f"system:serviceaccount:{namespace}:{account}",
            "groups": [
                "system:serviceaccounts",
                f"system:serviceaccounts:{namespace}",
                "system:authenticated",
            ],
            "resourceAttributes": {key: value for key, value in about.items() if value},
        },
    }


def check_access(allowed: Mapping[Right, bool], installed: Installation) -> Iterator[Finding]:
    """Yield a finding for each account and resource with a missing right; one if it has none."""
    accounts, namespace = installed.accounts, installed.namespace
    everywhere = Check("access", About("Namespace", namespace))
    if not installed.deployments and not any(allowed.values()):
        yield everywhere.info(
            "no Deployment runs Muster, and no account of its manifests has rights: those of"
            " processes elsewhere are not checked",
        )
        return
    lacking: dict[str, dict[tuple[str, str], list[str]]] = {}
    for right, has in sorted(allowed.items()):
        if not has:
            of_account = lacking.setdefault(accounts[right.part], {})
            of_account.setdefault((right.on, right.way_out), []).append(right.verb)
    having = {accounts[right.part] for right, has in allowed.items() if has}
    for account, verbs_on in lacking.items():
        check = Check("access", About("ServiceAccount", account, namespace))
        if account not in having:
            problem = "it has no rights: no role is bound to it"
            yield check.error(problem, next(iter(verbs_on))[1])
            continue
        for (on, way_out), verbs in verbs_on.items():
            yield check.error(f"it cannot {', '.join(verbs)} {on}", way_out)
    if allowed and not lacking:
        names: Sequence[Any] = sorted(set(accounts.values()))
        yield everywhere.info(
            f"{', '.join(names)}: all {len(allowed)} required rights are granted",
        )
