"""ResourceClaims of native PodGroups: reserved for the group, by Kubernetes' own contract."""

from typing import Any

import msgspec
import pytest

from api.constants import NATIVE_POD_GROUP
from scheduler.decoding.objects import decode_group
from scheduler.support.kinds import NATIVE_GROUPS
from scheduler.watch.event_handlers import GroupHandler
from tests.scheduler.claims.claims_harness import ClaimsHarness

KIND = NATIVE_POD_GROUP.full_kind
FROM_TEMPLATE = {"name": "gpu", "resourceClaimTemplateName": "t"}
BY_NAME = {"name": "gpu", "resourceClaimName": "g-gpu"}
GROUP = {
    "apiGroup": "scheduling.k8s.io", "resource": "podgroups", "name": "g", "uid": "uid-g",
}  # fmt: skip


class NativeHarness(ClaimsHarness):
    def start(self, devices: int = 1) -> None:
        self.builder.node("n0", cpu=1000, pods=1000)
        self.device_class()
        self.devices("n0", devices)
        self.pods.native = True
        self.native = GroupHandler(
            KIND,
            self.builder.state,
            self.changed.set,
            self.observed,
            self.pods.on_native_group_changed,
        )

    def group(self, minimum: int, entry: dict[str, Any] | None = FROM_TEMPLATE) -> None:
        spec: dict[str, Any] = {"schedulingPolicy": {"gang": {"minCount": minimum}}}
        if entry is not None:
            spec["resourceClaims"] = [entry]
        body = {"metadata": {"name": "g", "namespace": "ns", "uid": "uid-g"}, "spec": spec}
        stored = self.status_api.put(NATIVE_GROUPS[KIND], body, "ns")
        self.native.upsert(decode_group(msgspec.json.encode(stored)))

    def claim_of_group(self, *, made: bool = True) -> None:
        """Create the claim, from the group's template unless a user `made` it."""
        claim = self.claim("g-gpu")
        if made:
            owner = {"kind": "PodGroup", "name": "g", "uid": "uid-g", "controller": True}
            api = {"apiVersion": "scheduling.k8s.io/v1beta1"}
            claim["metadata"]["ownerReferences"] = [api | owner]
            self.api.store(claim)

    def members(self, count: int, entry: dict[str, Any] = FROM_TEMPLATE, first: int = 0) -> None:
        statuses = [{"name": "gpu", "resourceClaimName": "g-gpu"}]
        for at in range(first, first + count):
            self.pod_event(
                {
                    "metadata": {
                        "name": f"p{at}", "namespace": "ns", "uid": f"uid-p{at}",
                        "resourceVersion": "1", "creationTimestamp": "2026-01-01T00:00:00Z",
                    },
                    "spec": {
                        "schedulerName": "muster-scheduler",
                        "schedulingGroup": {"podGroupName": "g"},
                        "resourceClaims": [entry],
                    },
                    "status": {
                        "phase": "Pending",
                        **({} if entry is BY_NAME else {"resourceClaimStatuses": statuses}),
                    },
                }
            )  # fmt: skip

    def reserved(self) -> Any:
        return (self.api.claims["g-gpu"].get("status") or {}).get("reservedFor")

    async def run(self, seconds: float = 5, *, unsettled: str = "") -> None:
        async with self.leading(unsettled=unsettled):
            await self.settle(seconds)


@pytest.mark.parametrize("entry", [FROM_TEMPLATE, BY_NAME])
async def test_a_claim_is_reserved_for_the_group_of_any_number_of_pods(
    entry: dict[str, Any],
) -> None:
    """The API server accepts 256 consumers of a claim."""
    harness = NativeHarness()
    harness.start()
    harness.group(300, entry)
    harness.claim_of_group(made=entry is FROM_TEMPLATE)
    harness.members(300, entry)

    await harness.run()

    assert len(harness.api.bound) == 300
    assert harness.held() == {"g-gpu": ["n0/d0"]}
    assert harness.reserved() == [GROUP]


async def test_pods_that_come_later_use_the_claim_without_a_write() -> None:
    harness = NativeHarness()
    harness.start()
    harness.group(2)
    harness.claim_of_group()
    harness.members(2)
    await harness.run()
    writes = len(harness.api.writes)
    harness.members(1, first=2)
    await harness.run()

    assert (len(harness.api.bound), len(harness.api.writes)) == (3, writes)
    assert harness.reserved() == [GROUP]


@pytest.mark.parametrize(
    ("entry", "problem"),
    [
        pytest.param(None, "Pod is not owner", id="the group has no such entry"),
        pytest.param(
            {"name": "gpu", "resourceClaimTemplateName": "other"},
            "Pod is not owner",
            id="from another template",
        ),
        pytest.param(
            {"name": "nic", "resourceClaimTemplateName": "t"}, "Pod is not owner", id="other name"
        ),
    ],
)
async def test_a_pod_shares_only_what_its_group_has(
    entry: dict[str, Any] | None, problem: str
) -> None:
    harness = NativeHarness()
    harness.start()
    harness.group(1, entry)
    harness.claim_of_group()
    harness.members(1)
    await harness.run()

    assert harness.api.bound == {}
    assert problem in harness.builder.state.pods["uid-p0"].info.unclaimed


async def test_a_claim_of_another_owner_is_not_taken() -> None:
    """A tenant may create one with the name before the group's exists."""
    harness = NativeHarness()
    harness.start()
    harness.group(1)
    harness.claim("g-gpu", owner="stranger")
    harness.members(1)
    await harness.run()

    assert harness.api.bound == {}
    assert "PodGroup is not owner" in harness.builder.state.pods["uid-p0"].info.unclaimed


async def test_the_reservation_goes_if_no_pod_of_the_group_has_a_node() -> None:
    """A leader died after it had written the claim, and the group lacks members since."""
    harness = NativeHarness()
    harness.start()
    harness.group(2)
    harness.claim_of_group()
    harness.foreign("g-gpu", "n0", "d0")
    claim = harness.api.claims["g-gpu"]
    claim["status"]["reservedFor"] = [GROUP]
    harness.api.store(claim)
    harness.members(1)
    await harness.new_term()
    await harness.run(60)

    assert harness.reserved() is None
    assert harness.held() == {}


async def test_the_reservation_stays_while_a_pod_of_the_group_has_a_node() -> None:
    harness = NativeHarness()
    harness.start()
    harness.group(1)
    harness.claim_of_group()
    harness.members(1)
    await harness.run()
    # It fits nowhere: the node has room for no more.
    harness.builder.state.remove_node("n0")
    harness.members(1, first=1)
    await harness.run(120, unsettled="it waits for a node")

    assert harness.reserved() == [GROUP]


async def test_a_restored_snapshot_knows_claims_of_groups() -> None:
    harness = NativeHarness()
    harness.start()
    harness.group(1)
    harness.claim_of_group()
    harness.members(1)

    info = harness.builder.state.pods["uid-p0"].info

    assert info.consumer is not None
    assert info.consumer.claims == (("ns", "g-gpu"),)
    assert harness.builder.state.devices.of_groups == {("ns", "g-gpu")}
