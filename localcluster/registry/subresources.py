"""Binding, eviction, scale and finalize."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any, Literal, Protocol

from localcluster.admission.conversion import Converter
from localcluster.base.auth import Tokens
from localcluster.base.clock import Clock, timestamp
from localcluster.base.errors import (
    Cause,
    StatusError,
    conflict,
    invalid,
    method_not_allowed,
    too_many_requests,
)
from localcluster.base.hooks import DeleteOptions, Object, User, WriteOptions
from localcluster.base.meta import invalid_value, required
from localcluster.base.resources import PDBS, PODS, ResourceInfo, ScalePaths
from localcluster.base.selectors import from_object
from localcluster.base.store import Store, Stored
from localcluster.registry.deletion import Removal
from localcluster.registry.write_pipeline import Write, WritePipeline, uid_differs

SUCCESS: Object = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}
_BUILT_IN_SCALE = ScalePaths(".spec.replicas", ".status.replicas")
MAX_DISRUPTED = 2000
SHORTEST_TOKEN = 600


class Objects(Protocol):
    """The operations on the objects themselves; errors are those of the Api."""

    clock: Clock
    converter: Converter
    pipeline: WritePipeline
    store: Store
    tokens: Tokens

    def get(self, info: ResourceInfo, name: str, namespace: str = "") -> Stored: ...

    def finish(self, info: ResourceInfo, current: Stored, new: Object) -> Stored: ...

    async def patch(
        self,
        info: ResourceInfo,
        name: str,
        patch: Any,
        namespace: str = "",
        *,
        kind: Literal["merge"],
        user: User,
        options: WriteOptions | None,
        warnings: list[str] | None,
    ) -> Stored: ...

    async def remove(
        self,
        info: ResourceInfo,
        name: str,
        namespace: str = "",
        *,
        user: User,
        options: DeleteOptions | None,
    ) -> Removal: ...


class Subresources:
    """The subresources that are not simply a part of their object."""

    def __init__(self, api: Objects) -> None:
        """Create the subresources of an Api; they use its pipeline."""
        self._api = api

    async def read(self, write: Write) -> Stored:
        """Handle GET on a subresource. Raises StatusError 404, 405."""
        current = self._api.get(write.info, write.name, write.namespace)
        if write.subresource == "status":
            return current
        if write.subresource == "scale":
            return _scale_of(write, await self._api.converter.view(write.info, current))
        raise method_not_allowed()

    async def create(self, write: Write, body: Object) -> Stored:
        """Handle POST to binding, eviction or token. Raises StatusError 400, 404, 409, 422, 429."""
        if write.subresource == "binding":
            return await self._bind(write, body)
        if write.subresource == "eviction":
            return await self._evict(write, body)
        if write.subresource == "token":
            return self._token(write, body)
        raise method_not_allowed()

    async def update(self, write: Write, body: Object) -> Stored:
        """Handle PUT to scale or finalize. Raises StatusError 404, 405, 409, 422."""
        if write.subresource == "finalize":
            return self._finalize(write, body)
        if write.subresource == "scale":
            return await self._rescale(write, lambda _: body)
        raise method_not_allowed()

    async def patch(self, write: Write, change: Callable[[Object], Object]) -> Stored:
        """Handle PATCH on scale. Raises StatusError 404, 405, 409, 422."""
        if write.subresource != "scale":
            raise method_not_allowed()
        return await self._rescale(write, change)

    async def _bind(self, write: Write, body: Object) -> Stored:
        target = body.get("target") or {}
        if not target.get("name"):
            binding = invalid(PODS, write.name, [required("target.name")], "Binding")
            raise binding
        if target.get("kind") not in {None, "", "Node"}:
            text = 'Unsupported value: "{}": supported values: "Node", "<empty>"'
            cause = Cause("target.kind", "FieldValueNotSupported", text.format(target["kind"]))
            raise invalid(PODS, write.name, [cause], "Binding")
        request = write.admission("CREATE", body, None)
        request.kind = ("", "v1", "Binding")
        await self._api.pipeline.mutate(request)
        await self._api.pipeline.review(request)
        current = self._api.get(PODS, write.name, write.namespace)
        self._check_bindable(write, current, (body.get("metadata") or {}).get("uid"))
        if not write.options.dry_run:
            new = current.copy()
            new["spec"]["nodeName"] = target["name"]
            _merge_meta(new, body.get("metadata") or {})
            _scheduled(new, timestamp(self._api.clock.now()))
            self._api.store.update(PODS.collection, current.key, new, current.revision)
        return Stored({**SUCCESS, "code": 201}, 0)

    def _token(self, write: Write, body: Object) -> Stored:
        account = self._api.get(write.info, write.name, write.namespace).obj["metadata"]
        spec = {"expirationSeconds": 3600, **(body.get("spec") or {})}
        seconds = spec["expirationSeconds"]
        if not isinstance(seconds, int) or seconds < SHORTEST_TOKEN:
            text = "may not specify a duration less than 10 minutes"
            cause = invalid_value("spec.expirationSeconds", seconds, text)
            raise invalid(write.info, "", [cause], "TokenRequest")
        token = self._api.tokens.add_account(write.namespace, write.name, account["uid"])
        ends = timestamp(self._api.clock.now() + timedelta(seconds=seconds))
        request: Object = {
            "kind": "TokenRequest",
            "apiVersion": "authentication.k8s.io/v1",
            "metadata": {"name": write.name, "namespace": write.namespace},
            "spec": spec,
            "status": {"token": token, "expirationTimestamp": ends},
        }
        return Stored(request, 0)

    def _check_bindable(self, write: Write, current: Stored, uid: str | None) -> None:
        pod, name = current.obj, write.name
        if uid and uid != pod["metadata"]["uid"]:
            why = uid_differs(write, uid, pod["metadata"]["uid"])
            raise conflict(PODS, name, why)
        why = ""
        if "deletionTimestamp" in pod["metadata"]:
            why = f"pod {name} is being deleted, cannot be assigned to a host"
        elif pod["spec"].get("nodeName"):
            why = f'pod {name} is already assigned to node "{pod["spec"]["nodeName"]}"'
        elif pod["spec"].get("schedulingGates"):
            why = f"pod {name} has non-empty .spec.schedulingGates"
        if why:
            message = f'Operation cannot be fulfilled on pods/binding "{name}": {why}'
            details = {"name": name, "kind": "pods/binding"}
            raise StatusError(409, "Conflict", message, details)

    async def _evict(self, write: Write, body: Object) -> Stored:
        request = write.admission("CREATE", body, None)
        request.kind = ("policy", "v1", "Eviction")
        await self._api.pipeline.mutate(request)
        await self._api.pipeline.review(request)
        current = self._api.get(PODS, write.name, write.namespace)
        options = body.get("deleteOptions") or {}
        preconditions = options.get("preconditions") or {}
        chosen = DeleteOptions(
            grace_period_seconds=options.get("gracePeriodSeconds"),
            uid=preconditions.get("uid"),
            resource_version=preconditions.get("resourceVersion"),
            dry_run=write.options.dry_run or bool(options.get("dryRun")),
        )
        if not _free_to_go(current.obj):
            self._spend_budget(write, current, dry_run=chosen.dry_run)
        await self._api.remove(PODS, write.name, write.namespace, user=write.user, options=chosen)
        return Stored({**SUCCESS, "code": 201}, 0)

    def _spend_budget(self, write: Write, pod: Stored, *, dry_run: bool) -> None:
        budgets = self._budgets(pod.obj)
        if not budgets:
            return
        if len(budgets) > 1:
            text = (
                "This pod has more than one PodDisruptionBudget, which the eviction subresource "
                "does not support."
            )
            raise StatusError(500, "InternalError", f"Internal error occurred: {text}")
        budget = budgets[0]
        status = budget.obj.get("status") or {}
        _check_budget(budget.obj, status)
        if dry_run:
            return
        new = budget.copy()
        disrupted = new["status"].setdefault("disruptedPods", {})
        disrupted[write.name] = timestamp(self._api.clock.now())
        new["status"]["disruptionsAllowed"] = status["disruptionsAllowed"] - 1
        self._api.store.update(PDBS.collection, budget.key, new, budget.revision)

    def _budgets(self, pod: Object) -> list[Stored]:
        labels, namespace = pod["metadata"].get("labels"), pod["metadata"]["namespace"]
        collection = self._api.store.collection(PDBS.collection)
        found = (collection.objects[key] for key in collection.span(namespace))
        return [
            stored
            for stored in found
            if (selector := (stored.obj.get("spec") or {}).get("selector")) is not None
            and from_object(selector).matches(labels)
        ]

    def _finalize(self, write: Write, body: Object) -> Stored:
        current = self._api.get(write.info, write.name, write.namespace)
        said = (body.get("metadata") or {}).get("resourceVersion")
        if said and said != str(current.revision):
            raise conflict(write.info, write.name)
        new = current.copy()
        new["spec"] = {
            **new["spec"],
            "finalizers": (body.get("spec") or {}).get("finalizers") or [],
        }
        if not new["spec"]["finalizers"]:
            del new["spec"]["finalizers"]
        return self._api.finish(write.info, current, new)

    async def _rescale(self, write: Write, change: Callable[[Object], Object]) -> Stored:
        current = self._api.get(write.info, write.name, write.namespace)
        seen = await self._api.converter.view(write.info, current)
        wanted = change(_scale_of(write, seen).copy())
        replicas = (wanted.get("spec") or {}).get("replicas", 0)
        if not isinstance(replicas, int) or replicas < 0:
            text = "must be greater than or equal to 0"
            raise invalid(write.info, write.name, [invalid_value("spec.replicas", replicas, text)])
        said = (wanted.get("metadata") or {}).get("resourceVersion")
        if said and said != str(current.revision):
            raise conflict(write.info, write.name)
        path = _paths(write).spec_replicas.lstrip(".").split(".")
        value: Any = replicas
        for part in reversed(path):
            value = {part: value}
        stored = await self._api.patch(
            write.info,
            write.name,
            value,
            write.namespace,
            kind="merge",
            user=write.user,
            options=write.options,
            warnings=write.warnings,
        )
        return _scale_of(write, await self._api.converter.view(write.info, stored))


def _merge_meta(pod: Object, said: Object) -> None:
    for name in ("labels", "annotations"):
        if said.get(name):
            pod["metadata"][name] = {**(pod["metadata"].get(name) or {}), **said[name]}


def _scheduled(pod: Object, now: str) -> None:
    """Set the condition of a bound pod."""
    condition = {
        "type": "PodScheduled",
        "status": "True",
        "lastProbeTime": None,
        "lastTransitionTime": now,
    }
    conditions = pod.setdefault("status", {}).setdefault("conditions", [])
    for index, have in enumerate(conditions):
        if have.get("type") == "PodScheduled":
            conditions[index] = condition
            return
    conditions.append(condition)


def _free_to_go(pod: Object) -> bool:
    """Return True if no budget protects the pod: it is pending, terminal, or being deleted."""
    phase = (pod.get("status") or {}).get("phase")
    return phase in {"Succeeded", "Failed", "Pending"} or "deletionTimestamp" in pod["metadata"]


def _check_budget(budget: Object, status: Object) -> None:
    name = budget["metadata"]["name"]
    text = "Cannot evict pod as it would violate the pod's disruption budget."
    if status.get("observedGeneration", 0) < budget["metadata"].get("generation", 0):
        why = f"The disruption budget {name} is still being processed by the server."
        raise too_many_requests(text, 10, Cause("", "DisruptionBudget", why))
    if status.get("disruptionsAllowed", 0) <= 0:
        why = (
            f"The disruption budget {name} needs {status.get('desiredHealthy', 0)} healthy pods "
            f"and has {status.get('currentHealthy', 0)} currently"
        )
        raise too_many_requests(text, 0, Cause("", "DisruptionBudget", why))
    if len(status.get("disruptedPods") or {}) >= MAX_DISRUPTED:
        why = "DisruptedPods map too big - too many evictions not confirmed by PDB controller"
        raise StatusError(403, "Forbidden", why)


def _paths(write: Write) -> ScalePaths:
    return write.info.scale or _BUILT_IN_SCALE


def _at(obj: Object, path: str) -> Any:
    value: Any = obj
    for part in path.lstrip(".").split("."):
        value = value.get(part) if isinstance(value, dict) else None
    return value


def _scale_of(write: Write, current: Stored) -> Stored:
    obj, paths = current.obj, _paths(write)
    meta = obj["metadata"]
    kept = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
    scale: Object = {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {name: meta[name] for name in kept if name in meta},
        "spec": {"replicas": _at(obj, paths.spec_replicas) or 0},
        "status": {"replicas": _at(obj, paths.status_replicas) or 0},
    }
    selector = _at(obj, paths.label_selector) if paths.label_selector else _selector(obj)
    if selector:
        scale["status"]["selector"] = selector
    return Stored(scale, current.revision)


def _selector(obj: Object) -> str:
    labels = (((obj.get("spec") or {}).get("selector") or {}).get("matchLabels")) or {}
    return ",".join(f"{key}={value}" for key, value in sorted(labels.items()))
