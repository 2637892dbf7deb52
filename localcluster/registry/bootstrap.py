"""The objects that every cluster has from the start."""

from localcluster.base.resources import (
    CLUSTER_ROLE_BINDINGS,
    CLUSTER_ROLES,
    NAMESPACES,
    PRIORITY_CLASSES,
    SERVICES,
)
from localcluster.builtin.admission import KEPT, SYSTEM_CLASSES
from localcluster.rbac.roles import cluster_role_bindings, cluster_roles
from localcluster.registry.api import Api


async def complete_roles(api: Api) -> None:
    """Add rules introduced since to the roles of a cluster that an earlier version saved."""
    for role in cluster_roles():
        stored = api.store.get(CLUSTER_ROLES.collection, ("", role["metadata"]["name"]))
        if stored is None:
            await api.create(CLUSTER_ROLES, role)
            continue
        known = stored.obj.get("rules") or []
        missing = [rule for rule in role["rules"] if rule not in known]
        if missing:
            await api.update(CLUSTER_ROLES, {**stored.obj, "rules": [*known, *missing]})
    for binding in cluster_role_bindings():
        key = ("", binding["metadata"]["name"])
        if api.store.get(CLUSTER_ROLE_BINDINGS.collection, key) is None:
            await api.create(CLUSTER_ROLE_BINDINGS, binding)


async def bootstrap(api: Api) -> None:
    """Create the default namespaces, the system's priority classes and roles, and the Service."""
    for name in sorted(KEPT):
        await api.create(NAMESPACES, {"metadata": {"name": name}})
    for name, value in SYSTEM_CLASSES.items():
        text = f"Used for {name.removeprefix('system-')} pods that must run in the cluster."
        await api.create(
            PRIORITY_CLASSES,
            {"metadata": {"name": name}, "value": value, "description": text},
        )
    for role in cluster_roles():
        await api.create(CLUSTER_ROLES, role)
    for binding in cluster_role_bindings():
        await api.create(CLUSTER_ROLE_BINDINGS, binding)
    service = {
        "metadata": {
            "name": "kubernetes",
            "labels": {"component": "apiserver", "provider": "kubernetes"},
        },
        "spec": {
            "clusterIP": "10.0.0.1",
            "ports": [{"name": "https", "port": 443, "protocol": "TCP", "targetPort": 6443}],
        },
    }
    await api.create(SERVICES, service, "default")
