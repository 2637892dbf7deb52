"""Pods: defaults, validation, mutable fields and grace periods."""

from typing import Any

from localcluster.base import quantity
from localcluster.base.errors import Cause
from localcluster.base.meta import (
    invalid_value,
    label_causes,
    label_problem,
    qualified_name_problem,
    required,
)
from localcluster.base.strategy import Object, Strategy
from localcluster.builtin.pods import pod_claims

SPEC_FIXED = (
    "Forbidden: pod updates may not change fields other than `spec.containers[*].image`,"
    "`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only "
    "additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set "
    "to 1 if it was previously negative)"
)
NATIVE = ("cpu", "memory", "ephemeral-storage")


def default_pod_spec(spec: Object) -> None:
    """Set the defaults of a pod's or a template's spec."""
    spec.setdefault("restartPolicy", "Always")
    spec.setdefault("terminationGracePeriodSeconds", 30)
    spec.setdefault("dnsPolicy", "ClusterFirst")
    spec.setdefault("securityContext", {})
    spec.setdefault("schedulerName", "default-scheduler")
    for field in ("initContainers", "containers"):
        for container in spec.get(field) or ():
            if isinstance(container, dict):
                _default_container(container)


def _default_container(container: Object) -> None:
    container.setdefault("terminationMessagePath", "/dev/termination-log")
    container.setdefault("terminationMessagePolicy", "File")
    if "imagePullPolicy" not in container:
        tag = str(container.get("image", "")).rpartition("/")[2].partition(":")[2]
        container["imagePullPolicy"] = "IfNotPresent" if tag not in {"", "latest"} else "Always"
    for port in container.get("ports") or ():
        port.setdefault("protocol", "TCP")
    resources = container.setdefault("resources", {})
    for amounts in (resources.get("limits"), resources.get("requests")):
        canonicalise(amounts)
    limits = resources.get("limits")
    if limits:
        resources["requests"] = {**limits, **(resources.get("requests") or {})}


def canonicalise(amounts: Any) -> None:
    """Canonicalize quantities; leave invalid ones for validation to reject."""
    if not isinstance(amounts, dict):
        return
    for name, amount in amounts.items():
        try:
            amounts[name] = quantity.canonical(amount)
        except (ValueError, TypeError):
            continue


def pod_spec_causes(spec: Object, at: str) -> list[Cause]:
    """Return the validation errors of the spec of a pod or a template."""
    causes: list[Cause] = []
    entries = pod_claims.entry_names(spec)
    causes += pod_claims.entry_causes(spec.get("resourceClaims") or (), f"{at}.resourceClaims")
    containers = spec.get("containers") or []
    if not containers:
        causes.append(required(f"{at}.containers"))
    seen: set[str] = set()
    for field in ("initContainers", "containers"):
        for index, container in enumerate(spec.get(field) or ()):
            where = f"{at}.{field}[{index}]"
            causes += _container_causes(container, where, seen)
            used = (container.get("resources") or {}).get("claims") or ()
            causes += pod_claims.use_causes(used, f"{where}.resources.claims", entries)
    policy = spec.get("restartPolicy")
    if policy not in {"Always", "OnFailure", "Never"}:
        text = f'Unsupported value: "{policy}": supported values: "Always", "OnFailure", "Never"'
        causes.append(Cause(f"{at}.restartPolicy", "FieldValueNotSupported", text))
    if spec.get("nodeName") and spec.get("schedulingGates"):
        text = "Forbidden: cannot be set until all schedulingGates have been cleared"
        causes.append(Cause(f"{at}.nodeName", "FieldValueForbidden", text))
    for name in ("hostname", "subdomain"):
        if spec.get(name) and (problem := label_problem(spec[name])):
            causes.append(invalid_value(f"{at}.{name}", spec[name], problem))
    causes += label_causes(spec.get("nodeSelector"), f"{at}.nodeSelector")
    return causes + _gate_causes(spec.get("schedulingGates") or (), at)


def _gate_causes(gates: Any, at: str) -> list[Cause]:
    causes, seen = [], set()
    for index, gate in enumerate(gates):
        name = gate.get("name", "")
        if name in seen:
            text = f'Duplicate value: "{name}"'
            causes.append(Cause(f"{at}.schedulingGates[{index}]", "FieldValueDuplicate", text))
        seen.add(name)
    return causes


def _container_causes(container: Object, at: str, seen: set[str]) -> list[Cause]:
    causes = []
    name = container.get("name", "")
    if not name:
        causes.append(required(f"{at}.name"))
    elif problem := label_problem(name):
        causes.append(invalid_value(f"{at}.name", name, problem))
    elif name in seen:
        text = f'Duplicate value: "{name}"'
        causes.append(Cause(f"{at}.name", "FieldValueDuplicate", text))
    seen.add(name)
    if not container.get("image"):
        causes.append(required(f"{at}.image"))
    return causes + _resource_causes(container.get("resources") or {}, f"{at}.resources")


def _amount_causes(amounts: Object, at: str) -> tuple[dict[str, Any], list[Cause]]:
    numbers, causes = {}, []
    for name, amount in amounts.items():
        try:
            numbers[name] = quantity.parse(amount)
        except ValueError as error:
            causes.append(invalid_value(f"{at}[{name}]", amount, str(error)))
            continue
        if numbers[name] < 0:
            text = "must be greater than or equal to 0"
            causes.append(invalid_value(f"{at}[{name}]", amount, text))
    return numbers, causes


def _resource_causes(resources: Object, at: str) -> list[Cause]:
    limits, causes = _amount_causes(resources.get("limits") or {}, f"{at}.limits")
    requests, more = _amount_causes(resources.get("requests") or {}, f"{at}.requests")
    causes += more
    shown = resources.get("requests") or {}
    for name, asked in requests.items():
        extended = name not in NATIVE and not name.startswith("hugepages-")
        if name in limits and (asked != limits[name] if extended else asked > limits[name]):
            text = f"must be {'equal to' if extended else 'less than or equal to'} {name} limit"
            if not extended:
                text += f" of {resources['limits'][name]}"
            causes.append(invalid_value(f"{at}.requests", shown[name], text))
        elif extended and name not in limits:
            text = "Limit must be set for non overcommitable resources"
            causes.append(Cause(f"{at}.limits", "FieldValueRequired", f"Required value: {text}"))
    return causes


def extended_resource(name: str) -> bool:
    """Return True if the name is that of an extended resource, outside Kubernetes' own domains."""
    domain, slash, _ = name.partition("/")
    own = domain == "kubernetes.io" or domain.endswith(".kubernetes.io")
    if not slash or own or name.startswith("requests."):
        return False
    return qualified_name_problem(f"requests.{name}") is None


def qos_class(spec: Object) -> str:
    """Return Guaranteed, Burstable or BestEffort, from the containers' cpu and memory."""
    kinds = set()
    for container in (*(spec.get("initContainers") or ()), *(spec.get("containers") or ())):
        resources = container.get("resources") or {}
        requests, limits = resources.get("requests") or {}, resources.get("limits") or {}
        asked = {name for name in ("cpu", "memory") if name in requests or name in limits}
        if not asked:
            kinds.add("BestEffort")
        elif len(asked) == 2 and all(
            name in limits and requests.get(name, limits[name]) == limits[name] for name in asked
        ):
            kinds.add("Guaranteed")
        else:
            kinds.add("Burstable")
    return kinds.pop() if len(kinds) == 1 else "Burstable"


class Pods(Strategy):
    """The rules of pods."""

    generation = True
    returns_deleted = True

    def default(self, obj: Object) -> None:
        """Set the defaults of the spec, and of fields that templates do not have."""
        spec = obj.get("spec")
        if isinstance(spec, dict):
            default_pod_spec(spec)
            spec.setdefault("enableServiceLinks", True)

    def prepare_create(self, obj: Object) -> None:
        """Set the phase of a new pod to Pending, and its condition if it has scheduling gates."""
        obj["status"] = {"phase": "Pending", "qosClass": qos_class(obj.get("spec") or {})}
        if (obj.get("spec") or {}).get("schedulingGates"):
            condition = {
                "type": "PodScheduled",
                "status": "False",
                "reason": "SchedulingGated",
                "message": "Scheduling is blocked due to non-empty scheduling gates",
                "lastProbeTime": None,
                "lastTransitionTime": None,
            }
            obj["status"]["conditions"] = [condition]

    def validate(self, obj: Object) -> list[Cause]:
        """Return the validation errors of the spec."""
        return pod_spec_causes(obj.get("spec") or {}, "spec")

    def validate_update(self, new: Object, old: Object) -> list[Cause]:
        """Return an error for a change of an immutable field.

        Images, the deadline, more tolerations and fewer gates may change; for a gated pod its
        placement too.
        """
        before, after = dict(old.get("spec") or {}), dict(new.get("spec") or {})
        causes = _gates_only_removed(after, before)
        gated = bool(before.get("schedulingGates"))
        after["schedulingGates"] = before.get("schedulingGates")
        after["activeDeadlineSeconds"] = before.get("activeDeadlineSeconds")
        for field in ("containers", "initContainers"):
            after[field] = _with_images(after.get(field), before.get(field))
        known = before.get("tolerations") or []
        if all(toleration in (after.get("tolerations") or []) for toleration in known):
            after["tolerations"] = before.get("tolerations")
        if gated:
            after["nodeSelector"], after["affinity"] = (
                before.get("nodeSelector"),
                before.get("affinity"),
            )
        if _filled(before) != _filled(after):
            causes.append(Cause("spec", "FieldValueForbidden", SPEC_FIXED))
        return causes

    def prepare_status(self, new: Object, old: Object) -> None:  # noqa: ARG002
        """Drop an empty list of claim statuses."""
        status = new.get("status") or {}
        if not status.get("resourceClaimStatuses"):
            status.pop("resourceClaimStatuses", None)

    def validate_status(self, new: Object, old: Object) -> list[Cause]:  # noqa: ARG002
        """Return the errors of claims created for the pod's entries and extended resources."""
        status = new.get("status") or {}
        statuses = status.get("resourceClaimStatuses") or ()
        entries = pod_claims.entry_names(new["spec"])
        causes = pod_claims.status_causes(statuses, entries, "status.resourceClaimStatuses")
        extended = status.get("extendedResourceClaimStatus")
        if extended is not None:
            at = "status.extendedResourceClaimStatus"
            causes += pod_claims.extended_causes(extended, new["spec"], at)
        return causes

    def grace(self, obj: Object, wanted: int | None) -> int | None:
        """Return the requested grace period or the spec's own; 0 for pods that are not running."""
        if not obj["spec"].get("nodeName") or obj["status"].get("phase") in {"Succeeded", "Failed"}:
            return 0
        if wanted is None:
            wanted = obj["spec"].get("terminationGracePeriodSeconds", 30)
        return 1 if wanted < 0 else wanted


def _filled(spec: Object) -> Object:
    return {name: value for name, value in spec.items() if value is not None}


def _with_images(after: Any, before: Any) -> Any:
    if not after or not before or len(after) != len(before):
        return after
    return [{**new, "image": old.get("image")} for new, old in zip(after, before, strict=True)]


def _gates_only_removed(after: Object, before: Object) -> list[Cause]:
    known = [gate.get("name") for gate in before.get("schedulingGates") or ()]
    added = [
        g.get("name") for g in after.get("schedulingGates") or () if g.get("name") not in known
    ]
    if not added:
        return []
    text = f"Forbidden: only deletion is allowed, but found new scheduling gate '{added[0]}'"
    return [Cause("spec.schedulingGates", "FieldValueForbidden", text)]
