"""The life cycle of custom resource definitions: the kinds they serve, and their schemas.

`CustomResources` follows the stored definitions, keeps the registry in sync, and provides the
schemas of their kinds to the server (hooks.Schemas). A definition is established in the next
iteration of the event loop after it is stored. It is removed once its last object is deleted.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Any

from localcluster.base import resources
from localcluster.base.clock import Clock, timestamp
from localcluster.base.errors import Cause, StatusError, bad_request
from localcluster.base.hooks import AdmissionRequest
from localcluster.base.merge_node import MergeNode
from localcluster.base.resources import PrinterColumn, Registry, ResourceInfo, ScalePaths
from localcluster.base.store import CollectionId, Event, Key, Store, Stored
from localcluster.custom.crd_rules import FINALIZER, check_crd, default_crd, is_true, name_conflict
from localcluster.definitions import builtin
from localcluster.definitions.decoding import DecodingError
from localcluster.definitions.merging import METADATA, schema_rules
from localcluster.schemas.defaulting import default
from localcluster.schemas.lists import check_lists
from localcluster.schemas.pruning import prune
from localcluster.schemas.rules import check_rules
from localcluster.schemas.schema import UNSET, Schema, parse
from localcluster.schemas.validation import validate
from localcluster.schemas.webhook_rules import check_configuration

Object = dict[str, Any]
Delete = Callable[[ResourceInfo, str, str], Awaitable[object]]

CUSTOM_VERBS = (
    "delete", "deletecollection", "get", "list", "patch", "create", "update", "watch",
)  # fmt: skip
RETRY_SECONDS = 1.0
# CEL rules are not evaluated on an object with one of these structural errors.
_BLOCKING = frozenset(
    f"FieldValue{kind}"
    for kind in ("NotSupported", "Required", "TooLong", "TooMany", "TypeInvalid")
)
_UNCHECKED = Cause(
    "<nil>",
    "FieldValueInvalid",
    "Invalid value: null: some validation rules were not checked because the object was invalid; "
    "correct the existing errors to complete validation",
)
_WEBHOOKS = (resources.MUTATING_WEBHOOKS.collection, resources.VALIDATING_WEBHOOKS.collection)


@dataclass(frozen=True, slots=True)
class Served:
    """One served version of a kind, with its schema and the merge rules of its lists."""

    info: ResourceInfo
    schema: Schema
    merge: MergeNode
    raw: Object


class CustomResources:
    """Schemas and component of the stored definitions; `hold` is an admission step."""

    def __init__(self, store: Store, registry: Registry, clock: Clock) -> None:
        """Create the component; it follows `store` and serves later definitions at once."""
        self._store = store
        self._registry = registry
        self._clock = clock
        self._served: dict[tuple[str, str, str], Served] = {}
        self._tasks: dict[CollectionId, asyncio.Task[None]] = {}
        self._delete: Delete | None = None
        self.hold = DeletionHold(store)
        store.subscribe(self._changed)

    def attach(self, delete: Delete) -> None:
        """Set the function that deletes an object (kind, name, namespace) and honors finalizers."""
        self._delete = delete

    async def start(self) -> None:
        """Do nothing: the component follows definitions from its creation."""

    async def stop(self) -> None:
        """Cancel the running deletions."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def served(self, info: ResourceInfo) -> Served | None:
        """Return the served version of a custom kind, or None."""
        return self._served.get((info.group, info.version, info.plural))

    # hooks.Schemas

    def prepare(self, info: ResourceInfo, obj: Object) -> list[str]:
        """Prune in place, default custom objects; return `unknown field "spec.x"` for each field.

        Built-in kinds have defaults of their own. Raises StatusError 400 if values of a built-in
        kind have the wrong types.
        """
        served = self.served(info)
        if served is None:
            unknown = _decode(info, obj)
            if info.collection == resources.CRDS.collection:
                default_crd(obj)
        else:
            unknown = prune(obj, served.schema)
            default(obj, served.schema)
        return [f'unknown field "{path}"' for path in unknown]

    def validate(
        self,
        info: ResourceInfo,
        new: Object,
        old: Object | None,
        subresource: str = "",
    ) -> list[Cause]:
        """Return all violations of the schema, of lists, and of CEL rules that can be evaluated."""
        if info.collection == resources.CRDS.collection:
            return check_crd(new, old) if subresource != "status" else []
        if info.collection in _WEBHOOKS:
            return check_configuration(new, mutating=info.collection == _WEBHOOKS[0])
        served = self.served(info)
        if served is None:
            return []
        before = UNSET if old is None else old
        causes = validate(new, served.schema, "", before) + check_lists(new, served.schema)
        if served.schema.any_rule and any(cause.reason in _BLOCKING for cause in causes):
            return [*causes, _UNCHECKED]
        return causes + check_rules(new, served.schema, "", before)

    def trim(self, collection: CollectionId, version: str, obj: Object) -> None:
        """Prune an object in place by the schema of that version, if it is served."""
        served = self._served.get((collection[0], version, collection[1]))
        if served is not None:
            prune(obj, served.schema)

    def merge_node(self, info: ResourceInfo) -> MergeNode | None:
        """Return the merge rules of this kind for server-side apply."""
        served = self.served(info)
        return served.merge if served else None

    # the life cycle of definitions

    def _changed(self, collection: CollectionId, event: Event) -> None:
        if collection == resources.CRDS.collection:
            if event.type == "DELETED":
                self._retire(event.value.obj)
            else:
                asyncio.get_running_loop().call_soon(self._settle, event.value.key)
            return
        if event.type == "DELETED" and self._is_leaving(collection):
            name = f"{collection[1]}.{collection[0]}"
            asyncio.get_running_loop().call_soon(self._settle, ("", name))

    def _is_leaving(self, collection: CollectionId) -> bool:
        group, plural = collection
        stored = self._store.get(resources.CRDS.collection, ("", f"{plural}.{group}"))
        return stored is not None and "deletionTimestamp" in stored.obj["metadata"]

    def _settle(self, key: tuple[str, str]) -> None:
        stored = self._store.get(resources.CRDS.collection, key)
        if stored is None:
            return
        if "deletionTimestamp" in stored.obj["metadata"]:
            self._unwind(stored)
            return
        status = self._status(stored.obj)
        if status != stored.obj.get("status"):
            changed = stored.copy()
            changed["status"] = status
            stored = self._store.update(resources.CRDS.collection, key, changed, stored.revision)
        self._serve(stored.obj)

    def _status(self, crd: Object) -> Object:
        spec = crd["spec"]
        others = [
            stored.obj["spec"]["names"]
            for key, stored in self._store.collection(resources.CRDS.collection).objects.items()
            if key[1] != crd["metadata"]["name"]
            and stored.obj["spec"]["group"] == spec["group"]
            and is_true(stored.obj, "NamesAccepted")
        ]
        conflict = name_conflict(spec["names"], others)
        if conflict is None:
            accepted = spec["names"]
            names = ("True", "NoConflicts", "no conflicts found")
            established = ("True", "InitialNamesAccepted", "the initial names have been accepted")
        else:
            accepted = {"kind": "", "plural": spec["names"]["plural"]}
            names = ("False", *conflict)
            established = ("False", "NotAccepted", "not all names are accepted")
        old = crd.get("status") or {}
        stored_versions = old.get("storedVersions") or []
        current = next(one["name"] for one in spec["versions"] if one.get("storage"))
        if current not in stored_versions:
            stored_versions = [*stored_versions, current]
        return {
            "acceptedNames": accepted,
            "conditions": self._conditions(
                old, {"NamesAccepted": names, "Established": established}
            ),
            "storedVersions": stored_versions,
        }

    def _conditions(self, old: Object, wanted: dict[str, tuple[str, str, str]]) -> list[Object]:
        known = {one["type"]: one for one in old.get("conditions") or ()}
        for kind, (status, reason, message) in wanted.items():
            before = known.get(kind, {})
            changed = before.get("status") != status
            known[kind] = {
                "lastTransitionTime": timestamp(self._clock.now())
                if changed
                else before["lastTransitionTime"],
                "message": message,
                "reason": reason,
                "status": status,
                "type": kind,
            }
        return list(known.values())

    def _serve(self, crd: Object) -> None:
        self._withdraw(crd, keep={v["name"] for v in crd["spec"]["versions"] if v.get("served")})
        if not is_true(crd, "Established"):
            return
        for version in crd["spec"]["versions"]:
            if not version.get("served"):
                continue
            raw = version["schema"]["openAPIV3Schema"]
            info = resource_info(crd, version)
            known = self.served(info)
            if known is not None and known.info == info and known.raw == raw:
                continue
            schema = replace(parse(raw), embedded=True)
            key = (info.group, info.version, info.plural)
            if known is None:  # no watch can exist before the kind is served
                self._store.collection(info.collection).forget(self._store.revision)
            self._served[key] = Served(info, schema, _merge_node(raw), raw)
            self._registry.register(info)

    def _withdraw(self, crd: Object, *, keep: set[str]) -> None:
        group, plural = crd["spec"]["group"], crd["spec"]["names"]["plural"]
        for key in list(self._served):
            if (key[0], key[2]) == (group, plural) and key[1] not in keep:
                del self._served[key]
                self._registry.unregister(*key)

    def _retire(self, crd: Object) -> None:
        self._withdraw(crd, keep=set())

    def _unwind(self, stored: Stored) -> None:
        """Delete the objects of a terminating definition, then remove its finalizer."""
        crd = stored.obj
        if FINALIZER not in (crd["metadata"].get("finalizers") or ()):
            return
        collection = (crd["spec"]["group"], crd["spec"]["names"]["plural"])
        objects = self._store.collection(collection).objects
        if not objects:
            self._release(stored)
            return
        if self._delete is not None and collection not in self._tasks:
            stored_version = next(one for one in crd["spec"]["versions"] if one.get("storage"))
            info = resource_info(crd, stored_version)
            task = asyncio.get_running_loop().create_task(self._empty(info, self._delete))
            self._tasks[collection] = task
            task.add_done_callback(lambda _: self._tasks.pop(collection, None))

    async def _empty(self, info: ResourceInfo, delete: Delete) -> None:
        """Delete every object of a kind; retry rejected deletions a little later."""
        while waiting := self._undeleted(info.collection):
            refused = False
            for namespace, name in waiting:
                try:
                    await delete(info, name, namespace)
                except StatusError as error:
                    refused = refused or error.code != 404
            if refused:
                await self._clock.sleep(RETRY_SECONDS)

    def _undeleted(self, collection: CollectionId) -> list[Key]:
        objects = self._store.collection(collection).objects
        return [
            key for key, one in objects.items() if "deletionTimestamp" not in one.obj["metadata"]
        ]

    def _release(self, stored: Stored) -> None:
        changed = stored.copy()
        meta = changed["metadata"]
        meta["finalizers"] = [name for name in meta["finalizers"] if name != FINALIZER]
        collection = resources.CRDS.collection
        stored = self._store.update(collection, stored.key, changed, stored.revision)
        if not meta["finalizers"]:
            self._store.delete(collection, stored.key, stored.revision)


class DeletionHold:
    """Admission step that keeps a terminating definition until its objects are deleted."""

    def __init__(self, store: Store) -> None:
        """Create the step; it writes the finalizer into `store`."""
        self._store = store

    async def mutate(self, request: AdmissionRequest) -> None:
        """Do nothing: `CustomResources.prepare` defaults definitions."""

    async def validate(self, request: AdmissionRequest) -> None:
        """Add the finalizer before the deletion; the server then reads the object again."""
        is_deletion = request.operation == "DELETE" and not request.dry_run
        if not is_deletion or request.info.collection != resources.CRDS.collection:
            return
        stored = self._store.get(resources.CRDS.collection, ("", request.name))
        if stored is None or FINALIZER in (stored.obj["metadata"].get("finalizers") or ()):
            return
        held = stored.copy()
        held["metadata"]["finalizers"] = [*held["metadata"].get("finalizers", ()), FINALIZER]
        self._store.update(resources.CRDS.collection, stored.key, held, stored.revision)


def _decode(info: ResourceInfo, obj: Object) -> list[str]:
    try:
        return builtin.decode(info.group, info.plural, obj)
    except DecodingError as error:
        kind = f'{info.kind} in version "{info.version}"'
        raise bad_request(f"{kind} cannot be handled as a {info.kind}: {error}") from error


def _merge_node(raw: Object) -> MergeNode:
    """Return the schema's merge rules plus those of metadata."""
    node = schema_rules(raw)
    return replace(node, fields={**node.fields, "metadata": METADATA})


def resource_info(crd: Object, version: Object) -> ResourceInfo:
    """Return the ResourceInfo of one version of a definition."""
    spec, names = crd["spec"], crd["spec"]["names"]
    subresources = version.get("subresources") or {}
    scale = subresources.get("scale")
    storage = next(one["name"] for one in spec["versions"] if one.get("storage"))
    return ResourceInfo(
        spec["group"],
        version["name"],
        names["plural"],
        names["kind"],
        spec["scope"] == "Namespaced",
        singular=names["singular"],
        list_kind=names["listKind"],
        short_names=tuple(names.get("shortNames") or ()),
        categories=tuple(names.get("categories") or ()),
        subresources=frozenset(subresources),
        verbs=CUSTOM_VERBS,
        columns=tuple(
            PrinterColumn(
                one["name"],
                one["type"],
                one["jsonPath"],
                one.get("description", ""),
                one.get("format", ""),
                one.get("priority", 0),
            )
            for one in version.get("additionalPrinterColumns") or ()
        ),
        scale=ScalePaths(
            scale["specReplicasPath"], scale["statusReplicasPath"], scale.get("labelSelectorPath")
        )
        if scale
        else None,
        selectable_fields=tuple(
            one["jsonPath"].removeprefix(".") for one in version.get("selectableFields") or ()
        ),
        custom=True,
        storage_version=storage,
    )
