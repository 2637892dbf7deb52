"""Every object of every kind that an API server serves."""

from typing import Any

from e2e.harness.support.rest import Rest

Object = dict[str, Any]
Inventory = dict[tuple[str, str, str], Object]
"""Objects by `plural.group`, namespace and name."""

# The cluster itself writes these at any time.
_RESTLESS = {"events", "events.events.k8s.io", "leases.coordination.k8s.io"}


async def take(rest: Rest) -> Inventory:
    """List all objects of kinds that can be listed."""
    found: Inventory = {}
    paths = ["/api/v1"]
    for group in (await rest.get("/apis")).ok()["groups"]:
        paths += [f"/apis/{version['groupVersion']}" for version in group["versions"]]
    for path in paths:
        answer = await rest.get(path)
        if answer.status == 404:
            continue  # its CRD was just deleted
        group = path.removeprefix("/apis/").rpartition("/")[0] if path != "/api/v1" else ""
        for kind in answer.ok()["resources"]:
            name = f"{kind['name']}.{group}" if group else kind["name"]
            if "/" in kind["name"] or "list" not in kind["verbs"] or name in _RESTLESS:
                continue
            listed = await rest.get(f"{path}/{kind['name']}")
            for obj in listed.ok()["items"] if listed.status != 404 else ():
                meta = obj["metadata"]
                found[name, meta.get("namespace", ""), meta["name"]] = obj
    return found


def roles(inventory: Inventory) -> dict[str, Any]:
    """Return the rules of every ClusterRole; some are aggregated from others."""
    kind = "clusterroles.rbac.authorization.k8s.io"
    return {key[2]: _sorted(obj) for key, obj in inventory.items() if key[0] == kind}


def _sorted(role: Object) -> list[str]:
    return sorted(str(rule) for rule in role.get("rules") or ())
