"""The admission plugins that are compiled into the server."""

from typing import Any

from localcluster.base.errors import Cause, StatusError, forbidden, not_found
from localcluster.base.hooks import AdmissionRequest
from localcluster.base.resources import NAMESPACES, PODS, PRIORITY_CLASSES
from localcluster.base.store import Store

KEPT = frozenset({"default", "kube-system", "kube-public", "kube-node-lease"})
SYSTEM_CLASSES = {
    "system-cluster-critical": 2_000_000_000,
    "system-node-critical": 2_000_001_000,
}


class NamespaceLifecycle:
    """Admission plugin: nothing is created in missing or terminating namespaces.

    It also protects the namespaces that every cluster needs from deletion.
    """

    def __init__(self, store: Store) -> None:
        """Create the plugin; it reads namespaces from `store`."""
        self._store = store

    async def mutate(self, request: AdmissionRequest) -> None:
        """Reject a creation if the namespace is missing or terminating."""
        if request.operation != "CREATE" or not request.info.namespaced or request.subresource:
            return
        namespace = self._store.get(NAMESPACES.collection, ("", request.namespace))
        if namespace is None:
            raise not_found(NAMESPACES, request.namespace)
        if "deletionTimestamp" in namespace.obj["metadata"]:
            raise self._terminating(request)

    async def validate(self, request: AdmissionRequest) -> None:
        """Reject the deletion of a namespace that every cluster needs."""
        is_namespace = request.info.collection == NAMESPACES.collection
        if request.operation == "DELETE" and is_namespace and request.name in KEPT:
            raise forbidden(NAMESPACES, request.name, "this namespace may not be deleted")

    def _terminating(self, request: AdmissionRequest) -> StatusError:
        namespace = request.namespace
        why = (
            f"unable to create new content in namespace {namespace} because it is being terminated"
        )
        name = (request.obj or {})["metadata"].get("name", "")
        error = forbidden(request.info, name, why)
        text = f"namespace {namespace} is being terminated"
        cause = Cause("metadata.namespace", "NamespaceTerminating", text)
        error.details = {**(error.details or {}), "causes": [cause.to_json()]}
        return error


class PodPriority:
    """Admission plugin: resolve a pod's priority class to a value and a preemption policy."""

    def __init__(self, store: Store) -> None:
        """Create the plugin; it reads priority classes from `store`."""
        self._store = store

    async def mutate(self, request: AdmissionRequest) -> None:
        """Resolve the class of a new pod; keep the values of an existing pod."""
        if request.info.collection != PODS.collection or request.subresource or not request.obj:
            return
        spec = request.obj.get("spec")
        if not isinstance(spec, dict):
            return
        if request.operation == "UPDATE" and request.old:
            for name in ("priority", "preemptionPolicy"):
                if spec.get(name) is None and name in request.old["spec"]:
                    spec[name] = request.old["spec"][name]
        elif request.operation == "CREATE":
            self._resolve(request, spec)

    async def validate(self, request: AdmissionRequest) -> None:
        """Do nothing."""

    def _resolve(self, request: AdmissionRequest, spec: dict[str, Any]) -> None:
        name = spec.get("priorityClassName") or ""
        if name:
            stored = self._store.get(PRIORITY_CLASSES.collection, ("", name))
            if stored is None:
                raise self._refuse(request, f"no PriorityClass with name {name} was found")
            chosen: dict[str, Any] = stored.obj
        else:
            chosen = self._default()
            if chosen.get("metadata"):
                spec["priorityClassName"] = chosen["metadata"]["name"]
        value, policy = chosen["value"], chosen["preemptionPolicy"]
        if spec.get("priority") not in {None, value}:
            raise self._refuse(
                request,
                f"the integer value of priority ({spec['priority']}) must not be provided in pod "
                f"spec; priority admission controller computed {value} from the given "
                "PriorityClass name",
            )
        if spec.get("preemptionPolicy") not in {None, policy}:
            raise self._refuse(
                request,
                f"the string value of PreemptionPolicy ({spec['preemptionPolicy']}) must not be "
                f"provided in pod spec; priority admission controller computed {policy} from the "
                "given PriorityClass name",
            )
        spec["priority"], spec["preemptionPolicy"] = value, policy

    def _default(self) -> dict[str, Any]:
        """Return the global default class; the one with the lowest value if there are several."""
        classes = self._store.collection(PRIORITY_CLASSES.collection).objects.values()
        marked = [stored.obj for stored in classes if stored.obj.get("globalDefault")]
        if not marked:
            return {"value": 0, "preemptionPolicy": "PreemptLowerPriority"}
        return min(marked, key=lambda obj: int(obj["value"]))

    def _refuse(self, request: AdmissionRequest, why: str) -> StatusError:
        meta = (request.obj or {})["metadata"]
        return forbidden(PODS, meta.get("name") or meta.get("generateName", ""), why)


class PodTolerations:
    """Admission plugin: every pod tolerates a not-ready or unreachable node for five minutes."""

    async def mutate(self, request: AdmissionRequest) -> None:
        """Add the two tolerations to a pod that does not already have one for these taints."""
        if request.info.collection != PODS.collection:
            return
        spec = (request.obj or {}).get("spec")
        if request.subresource or not isinstance(spec, dict):
            return
        have = spec.get("tolerations") or []
        for taint in ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"):
            if not any(_covers(toleration, taint) for toleration in have):
                more = {"key": taint, "operator": "Exists", "effect": "NoExecute"}
                have = [*have, {**more, "tolerationSeconds": 300}]
        spec["tolerations"] = have

    async def validate(self, request: AdmissionRequest) -> None:
        """Do nothing."""


def _covers(toleration: dict[str, Any], taint: str) -> bool:
    return toleration.get("key") in {taint, None, ""} and toleration.get("effect") in {
        "NoExecute",
        None,
        "",
    }
