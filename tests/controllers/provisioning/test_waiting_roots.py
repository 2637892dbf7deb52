"""The content of a request, computed from a tree and its pods."""

import asyncio
from collections import Counter
from dataclasses import dataclass
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from api.constants import ANNOTATION_PROVISIONING_REQUEST, LABEL_POD_GROUP
from api.provisioning import CHECK_CAPACITY, consumed, pod_sets, shape_of
from controllers.cache.decoding import decode_group, decode_pod
from controllers.cache.informers import Caches
from controllers.provisioning.waiting_roots import WaitingPods, WaitingRoots, root_of
from tests.support.clock import FakeClock

Json = dict[str, Any]

ROOT = ("CompositePodGroup", "ns", "root")
LEAVES = ("a", "b", "elsewhere")


@dataclass(frozen=True)
class Member:
    """A pod: its leaf, its requirements, and reasons not to count it."""

    leaf: str
    cpu: int
    consumes: str
    trouble: str

    @property
    def waits(self) -> bool:
        return not self.trouble and self.leaf != "elsewhere"

    def body(self, index: int) -> Json:
        requests = {"requests": {"cpu": str(self.cpu)}}
        spec: Json = {"containers": [{"name": "c", "image": "i", "resources": requests}]}
        meta: Json = {
            "name": f"p{index}",
            "namespace": "ns",
            "uid": f"u{index}",
            "labels": {LABEL_POD_GROUP: self.leaf, "index": str(index)},
            "annotations": consumed(self.consumes, CHECK_CAPACITY) if self.consumes else {},
        }
        status: Json = {}
        if self.trouble == "bound":
            spec["nodeName"] = "n"
        elif self.trouble == "gated":
            spec["schedulingGates"] = [{"name": "g"}]
        elif self.trouble == "leaving":
            meta["deletionTimestamp"] = "2026-01-01T00:00:00Z"
        elif self.trouble == "nominated":
            status["nominatedNodeName"] = "n"
        elif self.trouble:
            status["phase"] = self.trouble
        return {
            "metadata": meta,
            "spec": spec | {"schedulerName": "muster-scheduler"},
            "status": status,
        }


MEMBERS = st.builds(
    Member,
    leaf=st.sampled_from(LEAVES),
    cpu=st.integers(1, 3),
    consumes=st.sampled_from(["root", "root", "", "another"]),
    trouble=st.sampled_from(
        ["", "", "", "bound", "gated", "leaving", "nominated", "Failed", "Succeeded"]
    ),
)


def group(name: str, parent: str = "") -> bytes:
    notes = {} if parent else {ANNOTATION_PROVISIONING_REQUEST: CHECK_CAPACITY}
    spec = {"parentCompositePodGroupName": parent} if parent else {}
    metadata = {"name": name, "namespace": "ns", "uid": name, "annotations": notes}
    return msgspec.json.encode({"metadata": metadata, "spec": spec})


def waiting(bodies: list[Json]) -> tuple[WaitingPods, dict[str, int]]:
    """Return the pending pods under the root, and the pod sets of its request."""
    caches = Caches()
    caches.composites.upsert(decode_group(group("root")))
    for name in LEAVES:
        above = "root" if name != "elsewhere" else "other"
        caches.pod_groups.upsert(decode_group(group(name, above)))
    for body in bodies:
        caches.pods.upsert(decode_pod(msgspec.json.encode(body)))
    roots = WaitingRoots(caches, FakeClock())
    found = roots.group(ROOT)
    assert found is not None
    seen = asyncio.run(roots.waiting(ROOT, found))
    return seen, pod_sets(root_of(ROOT, found), seen.shapes)


@given(st.lists(MEMBERS, max_size=12))
def test_a_request_asks_for_just_the_pods_that_wait_and_say_so(members: list[Member]) -> None:
    bodies = [member.body(index) for index, member in enumerate(members)]

    seen, sets = waiting(bodies)

    counted = [
        (member, body)
        for member, body in zip(members, bodies, strict=True)
        if member.waits and member.consumes == "root"
    ]
    assert seen.shapes == Counter(shape_of(body) for _, body in counted)
    assert sorted(sets.values()) == sorted(Counter(it.cpu for it, _ in counted).values())
    assert seen.others == sum(it.waits and it.consumes != "root" for it in members)
    names = {body["metadata"]["name"]: shape_of(body) for _, body in counted}
    assert all(names[name] == shape for shape, (_, name) in seen.samples.items())


@given(st.lists(MEMBERS, max_size=8), st.randoms(use_true_random=False))
def test_the_order_in_which_pods_come_does_not_matter(members: list[Member], random: Any) -> None:
    bodies = [member.body(index) for index, member in enumerate(members)]
    shuffled = random.sample(bodies, len(bodies))

    assert waiting(bodies)[1] == waiting(shuffled)[1]
