"""The RBAC authorizer: it follows roles and bindings in the store."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from localcluster.base import resources
from localcluster.base.auth import account_name
from localcluster.base.hooks import User
from localcluster.base.store import CollectionId, Event, Store
from localcluster.rbac.attributes import Attributes, refusal

Object = dict[str, Any]

MASTERS = "system:masters"
_KINDS = frozenset(
    info.collection
    for info in (
        resources.ROLES,
        resources.ROLE_BINDINGS,
        resources.CLUSTER_ROLES,
        resources.CLUSTER_ROLE_BINDINGS,
    )
)


@dataclass(frozen=True, slots=True)
class Decision:
    """An authorization decision, with the binding that allows it or the missing role."""

    allowed: bool
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Grant:
    """One rule that applies to a user, and the description of its source."""

    rule: Object
    source: str
    namespaced: bool


class Authorizer:
    """Authorizer for every request; it caches a user's rules until a role changes."""

    def __init__(self, store: Store) -> None:
        """Create an authorizer that follows the roles and bindings of `store`."""
        self._store = store
        self._grants: dict[tuple[User, str], tuple[list[Grant], list[str]]] = {}
        store.subscribe(self._changed)

    def decide(self, user: User, asked: Attributes) -> Decision:
        """Return the decision on a request."""
        if MASTERS in user.groups:
            return Decision(True)
        grants, missing = self._of(user, asked.namespace)
        for grant in grants:
            if _allows(grant, asked):
                return Decision(True, f"RBAC: allowed by {grant.source}")
        return Decision(False, _missing(missing))

    def check(self, user: User, asked: Attributes) -> Decision:
        """Return the decision if it allows the request. Raises StatusError 403."""
        decision = self.decide(user, asked)
        if not decision.allowed:
            raise refusal(user.name, asked, decision.reason)
        return decision

    def rules(self, user: User, namespace: str) -> list[Object]:
        """Return every rule that applies to a user in a namespace."""
        return [grant.rule for grant in self._of(user, namespace)[0]]

    def _changed(self, collection: CollectionId, _event: Event) -> None:
        if collection in _KINDS:
            self._grants.clear()

    def _of(self, user: User, namespace: str) -> tuple[list[Grant], list[str]]:
        known = self._grants.get((user, namespace))
        if known is None:
            known = self._grants[user, namespace] = self._find(user, namespace)
        return known

    def _find(self, user: User, namespace: str) -> tuple[list[Grant], list[str]]:
        grants: list[Grant] = []
        missing: list[str] = []
        for kind, where, binding in self._bindings(namespace):
            subject = _subject(binding, user, where)
            if subject is None:
                continue
            ref, name = binding["roleRef"], binding["metadata"]["name"]
            role = self._role(ref, where)
            if role is None:
                word = ref["kind"].lower() + ".rbac.authorization.k8s.io"
                missing.append(f'{word} "{ref["name"]}" not found')
                continue
            shown = f"{name}/{where}" if where else name
            source = f'{kind} "{shown}" of {ref["kind"]} "{ref["name"]}" to {subject}'
            grants += [Grant(rule, source, bool(where)) for rule in role.get("rules") or ()]
        return grants, missing

    def _bindings(self, namespace: str) -> Iterator[tuple[str, str, Object]]:
        """Yield kind, namespace and value of all bindings that apply in a namespace."""
        for stored in self._store.collection(
            resources.CLUSTER_ROLE_BINDINGS.collection
        ).objects.values():
            yield "ClusterRoleBinding", "", stored.obj
        if namespace:
            collection = self._store.collection(resources.ROLE_BINDINGS.collection)
            for key in collection.span(namespace):
                yield "RoleBinding", namespace, collection.objects[key].obj

    def _role(self, ref: Object, namespace: str) -> Object | None:
        in_cluster = ref["kind"] == "ClusterRole"
        info = resources.CLUSTER_ROLES if in_cluster else resources.ROLES
        key = ("" if in_cluster else namespace, ref["name"])
        stored = self._store.get(info.collection, key)
        return stored.obj if stored else None


def _subject(binding: Object, user: User, namespace: str) -> str | None:
    """Return the description of the binding's subject that matches this user, or None."""
    for subject in binding.get("subjects") or ():
        kind, name = subject["kind"], subject["name"]
        if kind == "ServiceAccount":
            home = subject.get("namespace") or namespace
            if user.name == account_name(home, name):
                return f'ServiceAccount "{name}/{home}"'
        elif (kind == "User" and user.name == name) or (kind == "Group" and name in user.groups):
            return f'{kind} "{name}"'
    return None


def _missing(roles: list[str]) -> str:
    if not roles:
        return ""
    found = list(dict.fromkeys(roles))
    return "RBAC: " + (found[0] if len(found) == 1 else "[" + ", ".join(found) + "]")


def _allows(grant: Grant, asked: Attributes) -> bool:
    rule = grant.rule
    if not _has(rule.get("verbs"), asked.verb):
        return False
    if asked.path:
        urls = () if grant.namespaced else rule.get("nonResourceURLs") or ()
        return any(_covers(url, asked.path) for url in urls)
    names = rule.get("resourceNames")
    return (
        _has(rule.get("apiGroups"), asked.group)
        and _names_part(rule.get("resources") or (), asked)
        and (not names or asked.name in names)
    )


def _has(wanted: Sequence[str] | None, value: str) -> bool:
    return wanted is not None and ("*" in wanted or value in wanted)


def _names_part(wanted: Sequence[str], asked: Attributes) -> bool:
    anywhere = f"*/{asked.subresource}" if asked.subresource else "*"
    return "*" in wanted or asked.part in wanted or anywhere in wanted


def _covers(url: str, path: str) -> bool:
    return url in {"*", path} or (url.endswith("*") and path.startswith(url.rstrip("*")))
