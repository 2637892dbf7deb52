"""The rules of the four kinds."""

from typing import Any

from localcluster.base.clock import Clock, timestamp
from localcluster.base.errors import Cause
from localcluster.base.fielderrors import invalid
from localcluster.base.hooks import User
from localcluster.base.meta import annotation_causes, label_causes
from localcluster.base.strategy import Object, Strategy
from localcluster.builtin.devices import claim_spec, claim_status, slice_spec
from localcluster.builtin.devices.claim_spec import MOST
from localcluster.builtin.devices.fields import each, immutable, opaque
from localcluster.builtin.devices.rights import Rights
from localcluster.builtin.devices.selectors import selector_causes
from localcluster.builtin.pods.pods import canonicalise, extended_resource


def _requests(spec: Object) -> Any:
    return (spec.get("devices") or {}).get("requests") or ()


class ResourceClaims(Strategy):
    """The rules of claims; `rights` decides who may write their status."""

    status_keeps_metadata = True

    def __init__(self, rights: Rights) -> None:
        """Create the strategy with the access checks."""
        self._rights = rights

    def default(self, obj: Object) -> None:
        """Set the defaults of requests."""
        claim_spec.default_spec(obj.setdefault("spec", {}))
        claim_status.default_status(obj.get("status") or {})

    def prepare_create(self, obj: Object) -> None:
        """Reset the status."""
        obj["status"] = {}

    def prepare_status(self, new: Object, old: Object) -> None:
        """Drop the status of devices that are no longer allocated."""
        claim_status.forget_deallocated(new.setdefault("status", {}), old.get("status") or {})

    def validate_create(self, obj: Object) -> list[Cause]:
        """Return the errors of admin access and of the spec."""
        requests, namespace = _requests(obj["spec"]), obj["metadata"]["namespace"]
        causes = self._rights.admin_request(requests, namespace)
        return causes + claim_spec.spec_causes(obj["spec"], "spec")

    def validate_update(self, new: Object, old: Object) -> list[Cause]:
        """Return an error if the spec changed."""
        return immutable(new["spec"], old["spec"], "spec")

    def authorize_status(self, user: User, verb: str, new: Object, old: Object) -> list[Cause]:
        """Return the errors of admin access and of the rights to allocate and to report devices."""
        after, before = new.get("status") or {}, old.get("status") or {}
        namespace = new["metadata"]["namespace"]
        causes = self._rights.admin_result(after, before, namespace)
        return causes + self._rights.status(user, verb, namespace, after, before)

    def validate_status(self, new: Object, old: Object) -> list[Cause]:
        """Return the errors of allocation, consumers and devices."""
        return claim_status.status_causes(new, old)


class ResourceClaimTemplates(Strategy):
    """The rules of templates."""

    def __init__(self, rights: Rights) -> None:
        """Create the strategy with the access checks."""
        self._rights = rights

    def default(self, obj: Object) -> None:
        """Set the defaults of requests."""
        claim_spec.default_spec(obj.setdefault("spec", {}).setdefault("spec", {}))
        obj["spec"].setdefault("metadata", {})

    def validate_create(self, obj: Object) -> list[Cause]:
        """Return the errors of admin access."""
        requests, namespace = _requests(obj["spec"]["spec"]), obj["metadata"]["namespace"]
        return self._rights.admin_request(requests, namespace)

    def validate(self, obj: Object) -> list[Cause]:
        """Return the errors of the spec and of the metadata for claims."""
        spec = obj["spec"]
        causes = annotation_causes(spec["metadata"].get("annotations"), "spec.metadata.annotations")
        causes += label_causes(spec["metadata"].get("labels"), "spec.metadata.labels")
        return causes + claim_spec.spec_causes(spec["spec"], "spec.spec")

    def validate_update(self, new: Object, old: Object) -> list[Cause]:
        """Return an error if the spec changed."""
        return immutable(new["spec"], old["spec"], "spec")


class DeviceClasses(Strategy):
    """The rules of device classes."""

    generation = True

    def default(self, obj: Object) -> None:
        """Ensure that the spec exists, even if empty."""
        obj.setdefault("spec", {})

    def validate(self, obj: Object) -> list[Cause]:
        """Return the errors of selectors, configuration and the extended resource."""
        spec = obj["spec"]
        causes = each(spec.get("selectors") or (), "spec.selectors", MOST, selector_causes)
        causes += each(spec.get("config") or (), "spec.config", MOST, _class_config)
        name = spec.get("extendedResourceName")
        if name is not None and not extended_resource(name):
            text = "must be a valid extended resource name"
            causes.append(invalid("spec.extendedResourceName", name, text))
        return causes


def _class_config(config: Object, at: str) -> list[Cause]:
    return opaque(config.get("opaque"), f"{at}.opaque")


class ResourceSlices(Strategy):
    """The rules of slices."""

    generation = True

    def __init__(self, clock: Clock) -> None:
        """Create the strategy; the clock sets the time of taints."""
        self._clock = clock

    def default(self, obj: Object) -> None:
        """Set the time of new taints, and canonicalize quantities."""
        spec = obj.setdefault("spec", {})
        for counters in spec.get("sharedCounters") or ():
            _default_counters(counters)
        for device in spec.get("devices") or ():
            self._default_device(device)

    def prepare_create(self, obj: Object) -> None:
        """Drop fields whose feature gate is off."""
        _drop_disabled(obj["spec"])

    def prepare_update(self, new: Object, old: Object) -> None:  # noqa: ARG002
        """Drop fields whose feature gate is off."""
        _drop_disabled(new["spec"])

    def validate(self, obj: Object) -> list[Cause]:
        """Return the errors of the pool, the nodes and the devices."""
        return slice_spec.spec_causes(obj["spec"], "spec")

    def validate_update(self, new: Object, old: Object) -> list[Cause]:
        """Return an error if pool, driver or node changed."""
        return slice_spec.change_causes(new["spec"], old["spec"], "spec")

    def warnings(self, obj: Object) -> list[str]:
        """Return a warning if the driver's name has uppercase characters."""
        driver = obj["spec"].get("driver", "")
        if driver == driver.lower():
            return []
        text = f'driver names should be lowercase; "{driver}" contains uppercase characters'
        return [f"spec.driver: {text}"]

    def _default_device(self, device: Object) -> None:
        for taint in device.get("taints") or ():
            if taint.get("timeAdded") is None:
                taint["timeAdded"] = timestamp(self._clock.now())
        for used in device.get("consumesCounters") or ():
            _default_counters(used)
        for capacity in (device.get("capacity") or {}).values():
            canonicalise(capacity)
            policy = capacity.get("requestPolicy") or {}
            canonicalise(policy)
            canonicalise(policy.get("validRange"))
            values = dict(enumerate(policy.get("validValues") or ()))
            canonicalise(values)
            if values:
                policy["validValues"] = list(values.values())


def _default_counters(counters: Object) -> None:
    for counter in (counters.get("counters") or {}).values():
        canonicalise(counter)


_DISABLED_VALUES = ("bools", "ints", "strings", "versions")


def _drop_disabled(spec: Object) -> None:
    for device in spec.get("devices") or ():
        device.pop("nodeAllocatableResourceMappings", None)
        for value in (device.get("attributes") or {}).values():
            for name in _DISABLED_VALUES:
                value.pop(name, None)
