"""NetworkPolicies on Muster's pods: what they exclude that API servers need.

API servers are no pods, so no selector admits them. They call the webhook's port for admission,
and their proxy reads the health port for the doctor.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from api.reading import condition_of, dig, labels_of, listing, mapping, text
from api.wording import count
from cli.doctor.findings import About, Check, Finding
from cli.doctor.health import HEALTH_PORT, Process, port_of
from cli.doctor.installation import parts_of
from cli.topology.label_selectors import selects
from kube.base.errors import Forbidden, NotFound
from kube.client.client import Client
from kube.client.meta import Json
from kube.client.paging import all_of
from kube.client.resources import Resource

POLICIES: Final = Resource("networking.k8s.io", "v1", "networkpolicies", "NetworkPolicy")
_MOST: Final = 500
"""NetworkPolicies of Muster's namespace that are read."""

_WEBHOOK_PORT: Final = "https"
"""The name of the webhook's port in its pods."""


async def read_policies(client: Client, namespace: str) -> list[Json]:
    """Return the policies of a namespace; none if they cannot be read. Raises other kube errors."""
    try:
        return await all_of(client, POLICIES, namespace, most=_MOST)
    except (Forbidden, NotFound):
        return []


def unreadable(policies: Sequence[Json], pods: Sequence[Json]) -> list[Json]:
    """Return the pods whose health port admits pods only, and so not the API server's proxy."""
    return [
        pod
        for pod in pods
        if text(dig(pod, "status", "phase")) == "Running"
        and (port := port_of(pod, HEALTH_PORT))
        and (on := _selecting(policies, pod))
        and not any(_from_outside(rule) for rule in _rules(on, pod, port))
    ]


def check_unreadable(
    policies: Sequence[Json], pods: Sequence[Json], namespace: str
) -> Iterator[Finding]:
    """Yield one finding for all `pods` that are `unreadable`, and what their condition says."""
    if not pods:
        return
    names = {
        text(dig(one, "metadata", "name")) for pod in pods for one in _selecting(policies, pod)
    }
    port, first = port_of(pods[0], HEALTH_PORT), text(dig(pods[0], "metadata", "name"))
    check = Check("health", About("NetworkPolicy", ", ".join(sorted(names)), namespace))
    yield check.info(
        f"it does not admit the API server's proxy to the health port of {count(len(pods), 'pod')}:"
        " the condition Ready of each counts instead of its /readyz",
        f"for more, kubectl -n {namespace} port-forward {first} {port}, then muster doctor"
        f" --health http://127.0.0.1:{port}",
    )
    for pod in pods:
        yield _readiness(pod)


def _readiness(pod: Json) -> Finding:
    check, ready = Check("health", About.of("Pod", pod)), condition_of(pod, "Ready")
    if ready.get("status") == "True":
        return check.info("it is ready")
    why = text(ready.get("message")) or text(ready.get("reason")) or "no condition Ready"
    return check.error(f"it is not ready: {why}", "check its log, which states what it waits for")


def check_webhook_port(policies: Sequence[Json], pods: Sequence[Json]) -> Iterator[Finding]:
    """Check that policies let API servers reach the webhook."""
    for pod in pods:
        port = port_of(pod, _WEBHOOK_PORT)
        on = _selecting(policies, pod)
        if "webhook" not in parts_of({"spec": {"template": pod}}) or not port or not on:
            continue
        names = ", ".join(sorted(text(dig(one, "metadata", "name")) for one in on))
        about = About("NetworkPolicy", names, text(dig(pod, "metadata", "namespace")))
        check = Check("network-policies", about)
        rules = _rules(on, pod, port)
        if not rules:
            yield check.error(
                f"it admits no client to port {port} of the webhook: API servers reject all gangs",
                "admit the port from everywhere, as manifests/protection does",
            )
        elif all(listing(rule.get("from")) for rule in rules):
            yield check.info(
                f"it admits only some addresses to port {port} of the webhook. With an overlay"
                " network (VXLAN, IPIP, WireGuard) API servers come from an address of the pods'"
                " network",
                "if requests time out, admit the port from everywhere, as manifests/protection"
                " does",
            )
        return  # its replicas have the same labels


def _selecting(policies: Sequence[Json], pod: Json) -> list[Json]:
    """Return the policies that restrict what reaches a pod."""
    labels = labels_of(pod)
    return [
        one
        for one in policies
        # Without types, a policy is for ingress.
        if "Ingress" in (listing(dig(one, "spec", "policyTypes")) or ["Ingress"])
        and selects(mapping(dig(one, "spec", "podSelector")), labels)
    ]


def _rules(policies: Sequence[Json], pod: Json, port: int) -> list[Mapping[str, Any]]:
    """Return the rules that admit any peer to a port of a pod."""
    rules = [mapping(it) for one in policies for it in listing(dig(one, "spec", "ingress"))]
    return [rule for rule in rules if _covers(listing(rule.get("ports")), pod, port)]


def _covers(ports: Sequence[Any], pod: Json, port: int) -> bool:
    """Return true if the ports of a rule include this one; none means all."""
    for one in map(mapping, ports):
        first, last = one.get("port"), one.get("endPort")
        if isinstance(first, str):
            first = port_of(pod, first)
        if first in (None, port) or (
            isinstance(first, int) and isinstance(last, int) and first <= port <= last
        ):
            return True
    return not ports


def _from_outside(rule: Mapping[str, Any]) -> bool:
    """Return true if a rule may admit what is no pod: anybody, or a block of addresses."""
    peers = listing(rule.get("from"))
    return not peers or any(mapping(peer).get("ipBlock") is not None for peer in peers)


def reached(processes: Sequence[Process], closed: Sequence[Json]) -> list[Process]:
    """Return the processes without the pods whose port is closed to the API server."""
    names = {text(dig(pod, "metadata", "name")) for pod in closed}
    return [one for one in processes if not (one.path and one.about.name in names)]
