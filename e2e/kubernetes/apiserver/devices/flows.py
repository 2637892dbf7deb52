"""Actions and waits of flows with claims."""

from typing import Any

from e2e.harness.support.rest import JSON_PATCH, Rest
from e2e.harness.support.waiting import eventually
from e2e.kubernetes.apiserver.devices.builders import ALLOCATION, CLAIM_SPEC, GROUP, Object
from e2e.kubernetes.apiserver.objects import Namespace, binding, pod

FINALIZER = "resource.kubernetes.io/delete-protection"
ENTRY_ANNOTATION = "resource.kubernetes.io/pod-claim-name"


class Claims:
    """The claims, templates and pods of one namespace."""

    def __init__(self, rest: Rest, ns: Namespace) -> None:
        """Use a namespace of a server."""
        self.rest = rest
        self._ns = ns

    def path(self, plural: str, name: str = "") -> str:
        """Return the URL path of claims or templates."""
        return self._ns.path(GROUP, plural, name)

    async def template(self, name: str, **metadata: Any) -> None:
        """Create a template whose claims get that metadata."""
        body = {"metadata": {"name": name}, "spec": {"metadata": metadata, "spec": CLAIM_SPEC}}
        (await self.rest.post(self.path("resourceclaimtemplates"), body)).expect(201)

    async def create(self, name: str) -> Object:
        """Create a claim."""
        body = {"metadata": {"name": name}, "spec": CLAIM_SPEC}
        return (await self.rest.post(self.path("resourceclaims"), body)).expect(201)

    async def pod(self, name: str, **entries: Object) -> Object:
        """Create a pod with these entries, named by their keywords."""
        made = pod(name)
        made["spec"]["terminationGracePeriodSeconds"] = 0
        made["spec"]["resourceClaims"] = [{"name": key, **one} for key, one in entries.items()]
        return (await self.rest.post(self._ns.pods(), made)).expect(201)

    async def bind(self, name: str, node: str) -> None:
        """Bind a pod."""
        (await self.rest.post(f"{self._ns.pods(name)}/binding", binding(name, node))).expect(201)

    async def run(self, name: str, node: str) -> None:
        """Bind a pod and wait until it runs."""
        await self.bind(name, node)

        async def runs() -> bool:
            return bool((await self.read_pod(name))["status"]["phase"] == "Running")

        await eventually(runs, f"pod {name} to run")

    async def read(self, name: str) -> Object:
        """Return a claim."""
        return (await self.rest.get(self.path("resourceclaims", name))).expect(200)

    async def read_pod(self, name: str) -> Object:
        """Return a pod."""
        return (await self.rest.get(self._ns.pods(name))).expect(200)

    async def protect(self, name: str) -> None:
        """Add the finalizer of allocating schedulers to a claim."""
        patch = [{"op": "add", "path": "/metadata/finalizers", "value": [FINALIZER]}]
        path = self.path("resourceclaims", name)
        (await self.rest.patch(path, patch, JSON_PATCH)).expect(200)

    async def allocate(self, name: str, *pods: Object) -> None:
        """Allocate a claim, reserved for pods."""
        status: Object = {"allocation": ALLOCATION, "reservedFor": [consumer(one) for one in pods]}
        path = f"{self.path('resourceclaims', name)}/status"
        (await self.rest.patch(path, {"status": status})).expect(200)

    async def delete(self, name: str) -> None:
        """Request the deletion of a claim."""
        assert (await self.rest.delete(self.path("resourceclaims", name))).status in {200, 202}

    async def delete_pod(self, name: str) -> None:
        """Delete a pod at once."""
        options = {"gracePeriodSeconds": 0}
        assert (await self.rest.delete(self._ns.pods(name), options)).status in {200, 202}

    async def end(self, name: str, phase: str = "Succeeded") -> None:
        """Set a pod's phase to ended, in place of the kubelet."""
        path = f"{self._ns.pods(name)}/status"
        (await self.rest.patch(path, {"status": {"phase": phase}})).expect(200)

    async def made_for(self, name: str) -> dict[str, str]:
        """Wait until each entry of a pod has a claim, and return these."""
        statuses: dict[str, str] = {}

        async def told() -> bool:
            one = await self.read_pod(name)
            found = (one.get("status") or {}).get("resourceClaimStatuses") or []
            statuses.update({each["name"]: each["resourceClaimName"] for each in found})
            wanted = {
                entry["name"]
                for entry in one["spec"]["resourceClaims"]
                if "resourceClaimTemplateName" in entry
            }
            return wanted == statuses.keys()

        await eventually(told, f"pod {name} to be told of its claims")
        return statuses

    async def gone(self, name: str) -> None:
        """Wait until a claim is deleted."""

        async def absent() -> bool:
            return (await self.rest.get(self.path("resourceclaims", name))).status == 404

        await eventually(absent, f"claim {name} to go", 30)

    async def until(self, name: str, **wanted: Any) -> None:
        """Wait until a claim has this state: consumers, allocated, protected."""
        seen: Object = {}

        async def is_so() -> bool:
            seen.update(state(await self.read(name)))
            return all(seen[key] == value for key, value in wanted.items())

        try:
            await eventually(is_so, f"claim {name} to be {wanted}")
        except TimeoutError as error:
            raise AssertionError(f"{name} is {seen}, not {wanted}") from error

    async def events(self, reason: str) -> list[str]:
        """Return the messages of events with a reason."""
        listed = (await self.rest.get(self._ns.core("events"))).ok()["items"]
        return [one["message"] for one in listed if one["reason"] == reason]


def consumer(one: Object) -> Object:
    """Return a pod as a consumer."""
    meta = one["metadata"]
    return {"resource": "pods", "name": meta["name"], "uid": meta["uid"]}


def state(claim: Object) -> Object:
    """Return a claim's consumers, and True for an allocation and for the finalizer."""
    status = claim.get("status") or {}
    return {
        "consumers": sorted(one["name"] for one in status.get("reservedFor") or ()),
        "allocated": "allocation" in status,
        "protected": FINALIZER in (claim["metadata"].get("finalizers") or ()),
    }
