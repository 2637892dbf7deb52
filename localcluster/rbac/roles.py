"""The default roles and bindings of every cluster."""

from typing import Any

from localcluster.base.auth import AUTHENTICATED
from localcluster.rbac.authorizer import MASTERS

Object = dict[str, Any]

CONTROLLERS = "system:kube-controller-manager"
_GROUP = "rbac.authorization.k8s.io"
_HEALTH = ["/healthz", "/livez", "/readyz", "/version", "/version/"]
_DOCUMENTS = ["/api", "/api/*", "/apis", "/apis/*", "/openapi", "/openapi/*"]
_SELF = ["selfsubjectaccessreviews", "selfsubjectrulesreviews"]


def _rule(group: str, resources: list[str], *verbs: str) -> Object:
    return {"apiGroups": [group], "resources": resources, "verbs": list(verbs)}


def _urls(urls: list[str], verb: str) -> Object:
    return {"nonResourceURLs": urls, "verbs": [verb]}


# The controllers inside the cluster are trusted; only the owners that they set are checked.
_ROLES: dict[str, tuple[tuple[str, str], list[Object]]] = {
    "cluster-admin": (("Group", MASTERS), [_rule("*", ["*"], "*"), _urls(["*"], "*")]),
    "system:discovery": (("Group", AUTHENTICATED), [_urls(_HEALTH + _DOCUMENTS, "get")]),
    "system:public-info-viewer": (("Group", AUTHENTICATED), [_urls(_HEALTH, "get")]),
    "system:basic-user": (
        ("Group", AUTHENTICATED),
        [
            _rule("authorization.k8s.io", _SELF, "create"),
            _rule("authentication.k8s.io", ["selfsubjectreviews"], "create"),
        ],
    ),
    CONTROLLERS: (
        ("User", CONTROLLERS),
        [
            _rule("*", ["*/finalizers"], "update"),
            _rule("*", ["*"], "delete"),
            _rule("resource.k8s.io", ["resourceclaims/binding"], "update"),
        ],
    ),
    # It removes owner references when it orphans dependents.
    "system:controller:generic-garbage-collector": (
        ("User", "system:serviceaccount:kube-system:generic-garbage-collector"),
        [_rule("*", ["*"], "delete", "get", "list", "patch", "update", "watch")],
    ),
}


def cluster_roles() -> list[Object]:
    """Return the ClusterRoles."""
    return [{"metadata": {"name": name}, "rules": rules} for name, (_, rules) in _ROLES.items()]


def cluster_role_bindings() -> list[Object]:
    """Return their ClusterRoleBindings, with the same names."""
    return [
        {
            "metadata": {"name": name},
            "roleRef": {"apiGroup": _GROUP, "kind": "ClusterRole", "name": name},
            "subjects": [{"apiGroup": _GROUP, "kind": kind, "name": subject}],
        }
        for name, ((kind, subject), _) in _ROLES.items()
    ]
