"""Accounts with only the permissions that a test grants."""

import secrets
from dataclasses import dataclass, field

from e2e.harness.support.rest import Rest
from e2e.kubernetes.apiserver.objects import Namespace, Object

RBAC = "rbac.authorization.k8s.io"
ROLES = f"/apis/{RBAC}/v1"


@dataclass
class Account:
    """A ServiceAccount of the test's namespace with only the permissions granted by `may`."""

    admin: Rest
    rest: Rest
    ns: Namespace
    name: str
    cluster_roles: list[str] = field(default_factory=list)

    @property
    def user(self) -> str:
        return f"system:serviceaccount:{self.ns.name}:{self.name}"

    @property
    def subject(self) -> Object:
        return {"kind": "ServiceAccount", "name": self.name, "namespace": self.ns.name}

    async def may(self, *rules: Object, subject: Object | None = None) -> None:
        """Grant a Role with these rules to the account in its namespace."""
        name = f"role-{secrets.token_hex(3)}"
        role = {"metadata": {"name": name}, "rules": list(rules)}
        (await self.admin.post(self.ns.path(f"{RBAC}/v1", "roles"), role)).expect(201)
        await self.bind("rolebindings", "Role", name, subject)

    async def may_everywhere(self, *rules: Object, subject: Object | None = None) -> None:
        """Grant a ClusterRole with these rules to the account in all namespaces."""
        name = await self.cluster_role(*rules)
        await self.bind("clusterrolebindings", "ClusterRole", name, subject)

    async def cluster_role(self, *rules: Object) -> str:
        name = f"{self.ns.name}-{secrets.token_hex(3)}"
        self.cluster_roles.append(name)
        role = {"metadata": {"name": name}, "rules": list(rules)}
        (await self.admin.post(f"{ROLES}/clusterroles", role)).expect(201)
        return name

    async def bind(
        self, bindings: str, kind: str, role: str, subject: Object | None = None
    ) -> Object:
        body = {
            "metadata": {"name": role},
            "roleRef": {"apiGroup": RBAC, "kind": kind, "name": role},
            "subjects": [subject or self.subject],
        }
        return (await self.admin.post(self.bindings(bindings), body)).expect(201)

    def bindings(self, plural: str) -> str:
        if plural == "rolebindings":
            return self.ns.path(f"{RBAC}/v1", plural)
        return f"{ROLES}/{plural}"

    async def close(self) -> None:
        for name in self.cluster_roles:
            await self.admin.delete(f"{ROLES}/clusterrolebindings/{name}")
            await self.admin.delete(f"{ROLES}/clusterroles/{name}")

    async def allowed(self, path: str) -> bool:
        return (await self.rest.get(path)).status != 403


def rule(group: str, resource: str, *verbs: str, names: tuple[str, ...] = ()) -> Object:
    made: Object = {"apiGroups": [group], "resources": [resource], "verbs": list(verbs)}
    return {**made, "resourceNames": list(names)} if names else made
