"""The check of a run with claims, from the API server's objects."""

import json
from typing import Any, cast

from tools.bench.end_to_end import claims, outcome
from tools.bench.end_to_end.cases import CASES
from tools.bench.end_to_end.wire import Wire

CASE = CASES["perf-template"].scaled(2, 0.001)


class Server:
    """Server that returns lists, as `Wire` gets them."""

    def __init__(self, **lists: list[dict[str, Any]]) -> None:
        self._lists = lists

    async def get(self, path: str) -> bytes:
        return json.dumps({"items": self._lists.get(path.rpartition("/")[2], [])}).encode()


def server(*claims_of: tuple[str, str, int]) -> Wire:
    """Return pods on nodes, each with a claim that has the device of this number."""
    content = CASE.claims
    assert content is not None
    made = []
    for at, (node, of, device) in enumerate(claims_of):
        name = f"c{at}"
        status = {
            "allocation": claims.allocation(of, device),
            "reservedFor": claims.consumers({f"p{at}": f"uid-{at}"}) if node else [],
        }
        spec = {"devices": claims._asked(content)}
        made.append({"metadata": metadata(name), "spec": spec, "status": status})
    pods = [
        {"metadata": {**metadata(f"p{at}"), "uid": f"uid-{at}"}, "spec": {"nodeName": node}}
        for at, (node, _, _) in enumerate(claims_of)
        if node
    ]
    found = Server(
        resourceclaims=made,
        pods=pods,
        nodes=[{"metadata": {"name": f"n{at}"}} for at in range(2)],
        deviceclasses=[{**each, "metadata": metadata(each["metadata"]["name"])} for each in
                       [claims._class(claims.CLASS, claims.DRIVER)]],
        resourceslices=[
            {**each, "metadata": metadata(each["metadata"]["name"])} for each in claims.slices(CASE)
        ],
    )  # fmt: skip
    return cast("Wire", found)


def metadata(name: str) -> dict[str, Any]:
    return {"name": name, "namespace": "bench", "uid": f"uid-of-{name}", "resourceVersion": "1"}


async def test_devices_of_the_pods_own_nodes_are_as_they_should_be() -> None:
    assert await outcome.complaints(server(("n0", "n0", 5), ("n1", "n1", 5))) == []


async def test_a_device_that_two_claims_have_is_found() -> None:
    assert await outcome.complaints(server(("n0", "n0", 5), ("n0", "n0", 5)))


async def test_a_device_of_another_node_is_found() -> None:
    assert await outcome.complaints(server(("n0", "n1", 5)))


async def test_a_device_that_is_not_there_is_found() -> None:
    assert await outcome.complaints(server(("n0", "n0", 50)))


async def test_a_pod_that_runs_without_being_a_consumer_is_found() -> None:
    wire = server(("n0", "n0", 5))
    cast("Any", wire)._lists["resourceclaims"][0]["status"]["reservedFor"] = []

    assert await outcome.complaints(wire) == ["pod uid-0 runs without devices"]
