"""The server without its transport: every client request as a method call.

Returned values are shared (see localcluster.base.store); request bodies are copied.
"""

from collections.abc import Callable, Mapping
from typing import Any, Literal

from localcluster.admission.calling import Caller
from localcluster.admission.conversion import Converter
from localcluster.base import meta
from localcluster.base.auth import Tokens
from localcluster.base.clock import Clock, SystemClock, timestamp
from localcluster.base.errors import (
    StatusError,
    already_exists,
    bad_request,
    conflict,
    invalid,
    method_not_allowed,
    not_found,
    unknown_path,
)
from localcluster.base.hooks import (
    Admission,
    DeleteOptions,
    Object,
    Operation,
    Schemas,
    User,
    WriteOptions,
)
from localcluster.base.resources import BUILT_IN, SERVICE_ACCOUNTS, Registry, ResourceInfo
from localcluster.base.store import (
    ChangedError,
    CollectionId,
    Event,
    ExistsError,
    MissingError,
    Store,
    Stored,
)
from localcluster.builtin.admission import NamespaceLifecycle, PodPriority, PodTolerations
from localcluster.builtin.strategies import strategies
from localcluster.patching import managed_fields
from localcluster.patching.patch import copy, json_patch, merge_patch
from localcluster.patching.strategic import strategic_merge
from localcluster.rbac.authorizer import Authorizer
from localcluster.registry.deletion import Removal, Remover, may_go
from localcluster.registry.reads import Reader
from localcluster.registry.reviews import QUESTIONS, answer
from localcluster.registry.subresources import Subresources
from localcluster.registry.write_pipeline import (
    SYSTEM,
    NoSchemas,
    Write,
    WritePipeline,
    check_envelope,
    check_name,
    uid_differs,
)

PatchKind = Literal["json", "merge", "strategic", "apply"]
ATTEMPTS = 5
NAME_ATTEMPTS = 8

__all__ = ["SYSTEM", "Api", "PatchKind", "Removal"]


class Api(Reader):
    """One API server. Reads come from Reader, writes are here."""

    def __init__(
        self,
        *,
        store: Store | None = None,
        registry: Registry | None = None,
        clock: Clock | None = None,
        schemas: Schemas | None = None,
        tokens: Tokens | None = None,
        converter: Converter | None = None,
        bookmark_every: float = 10.0,
    ) -> None:
        """Create a server of the built-in kinds.

        Admission steps and strategies can be added later.
        """
        self.store = store or Store()
        super().__init__(self.store, bookmark_every=bookmark_every)
        self.registry = registry or Registry(BUILT_IN)
        for info in self.registry.stored():
            self.store.collection(info.collection)
        self.clock = clock or SystemClock()
        self.tokens = tokens or Tokens()
        self.authorizer = Authorizer(self.store)
        self.store.subscribe(self._forget_tokens)
        self.converter = converter or Converter(self.store, Caller({}))
        self.strategies = strategies(self.store, self.authorizer, self.clock)
        self.admission: list[Admission] = [
            NamespaceLifecycle(self.store),
            PodPriority(self.store),
            PodTolerations(),
        ]
        self.pipeline = WritePipeline(schemas or NoSchemas(), self.admission, self.strategies)
        self._remover = Remover(self.store, self.clock, self.pipeline)
        self.subresources = Subresources(self)

    async def create(
        self,
        info: ResourceInfo,
        obj: Mapping[str, Any],
        namespace: str = "",
        *,
        name: str = "",
        subresource: str = "",
        user: User = SYSTEM,
        options: WriteOptions | None = None,
        warnings: list[str] | None = None,
    ) -> Stored:
        """Handle POST: a new object, or with `name` and `subresource` a binding or an eviction.

        Raises StatusError: 400, 403, 404 (namespace), 409 (name exists), 422, and errors of
        admission.
        """
        write = _write(
            info,
            namespace=namespace,
            name=name,
            subresource=subresource,
            user=user,
            options=options,
            warnings=warnings,
            verb="create",
        )
        if subresource:
            return await self.subresources.create(write, copy(obj))
        body = copy(obj)
        check_envelope(write, body)
        if info.collection in QUESTIONS:
            return Stored(answer(info, body, user, self.tokens, self.authorizer), 0)
        write.name = body["metadata"].get("name", "")
        return await self._create(write, body)

    async def update(
        self,
        info: ResourceInfo,
        obj: Mapping[str, Any],
        namespace: str = "",
        *,
        name: str = "",
        subresource: str = "",
        user: User = SYSTEM,
        options: WriteOptions | None = None,
        warnings: list[str] | None = None,
    ) -> Stored:
        """Handle PUT: replace the object, or the part that the subresource shows.

        Raises StatusError: 400, 403, 404, 409 (another resourceVersion), 422.
        """
        body = copy(obj)
        name = name or (body.get("metadata") or {}).get("name", "")
        write = _write(
            info,
            namespace=namespace,
            name=name,
            subresource=subresource,
            user=user,
            options=options,
            warnings=warnings,
            verb="update",
        )
        if subresource not in {"", "status"}:
            return await self.subresources.update(write, body)
        check_envelope(write, body)
        check_name(write, body["metadata"])
        strategy = self.pipeline.strategy(info)
        exists = self.store.get(info.collection, (namespace, name)) is not None
        if not exists and strategy.create_on_update and not subresource:
            body["metadata"].pop("resourceVersion", None)
            return await self._create(write, body)
        if not body["metadata"].get("resourceVersion") and not strategy.unconditional_update:
            text = "must be specified for an update"
            cause = meta.invalid_value("metadata.resourceVersion", 0, text)
            raise invalid(info, name, [cause], info.plural)
        return await self._modify(write, lambda _: copy(body), put=True)

    async def patch(
        self,
        info: ResourceInfo,
        name: str,
        patch: Any,
        namespace: str = "",
        *,
        kind: PatchKind = "merge",
        subresource: str = "",
        user: User = SYSTEM,
        options: WriteOptions | None = None,
        warnings: list[str] | None = None,
    ) -> Stored:
        """Handle PATCH with a decoded patch: a list of operations, or an object.

        Apply creates the object if it does not exist. Raises StatusError: 400, 403, 404, 409, 422.
        """
        write = _write(
            info,
            namespace=namespace,
            name=name,
            subresource=subresource,
            user=user,
            options=options,
            warnings=warnings,
            verb="patch",
        )
        if kind == "apply":
            return await self._apply(write, patch)
        change = _patcher(kind, patch, self.pipeline, info)
        if subresource not in {"", "status"}:
            return await self.subresources.patch(write, change)
        return await self._modify(write, lambda current: change(current.copy()))

    async def remove(
        self,
        info: ResourceInfo,
        name: str,
        namespace: str = "",
        *,
        user: User = SYSTEM,
        options: DeleteOptions | None = None,
    ) -> Removal:
        """Handle DELETE and report if the object is removed or only being deleted.

        Raises StatusError: 403, 404, 409 (precondition).
        """
        chosen = options or DeleteOptions()
        return await self._remover.remove(info, name, namespace, user, chosen)

    async def delete(
        self,
        info: ResourceInfo,
        name: str,
        namespace: str = "",
        *,
        user: User = SYSTEM,
        options: DeleteOptions | None = None,
    ) -> Stored:
        """Handle DELETE and return the last state."""
        removal = await self.remove(info, name, namespace, user=user, options=options)
        return removal.value

    async def delete_collection(
        self,
        info: ResourceInfo,
        namespace: str = "",
        *,
        label_selector: str = "",
        field_selector: str = "",
        user: User = SYSTEM,
        options: DeleteOptions | None = None,
    ) -> tuple[Stored, ...]:
        """Handle DELETE on a collection: delete each selected object in sequence."""
        page = self.list(
            info, namespace, label_selector=label_selector, field_selector=field_selector
        )
        out = []
        for item in page.items:
            where, name = item.key
            try:
                out.append(await self.delete(info, name, where, user=user, options=options))
            except StatusError as error:
                if error.code != 404:
                    raise
        return tuple(out)

    def finish(self, info: ResourceInfo, current: Stored, new: Object) -> Stored:
        """Write the next state of an object, or remove it if its deletion can complete.

        Raises ChangedError, MissingError.
        """
        if may_go(new, info):
            self.store.delete(info.collection, current.key, current.revision)
            return Stored(new, current.revision)
        return self.store.update(info.collection, current.key, new, current.revision)

    def _forget_tokens(self, collection: CollectionId, event: Event) -> None:
        if event.type == "DELETED" and collection == SERVICE_ACCOUNTS.collection:
            self.tokens.forget(event.value.obj["metadata"]["uid"])

    async def _create(self, write: Write, obj: Object) -> Stored:
        info, pipeline = write.info, self.pipeline
        metadata = obj["metadata"]
        if metadata.get("resourceVersion"):
            text = "resourceVersion should not be set on objects to be created"
            raise StatusError(500, "", text)
        pipeline.prepare(write, obj, first=True)
        if "managedFields" not in metadata:
            now = timestamp(self.clock.now())
            node = pipeline.merge_node(info)
            managed_fields.on_create(obj, node, write.manager, info.api_version, now)
        obj = await self._mutated(write, "CREATE", obj, None)
        base = "" if obj["metadata"].get("name") else obj["metadata"].get("generateName", "")
        for _ in range(NAME_ATTEMPTS):
            pipeline.complete_new(info, obj, self.clock.now())
            pipeline.validate(write, obj, None)
            write.name = obj["metadata"]["name"]
            await pipeline.review(write.admission("CREATE", obj, None))
            key = (write.namespace, write.name)
            if write.options.dry_run:
                if self.store.get(info.collection, key) is not None:
                    raise already_exists(info, write.name)
                return Stored(obj, 0)
            stored = await self.converter.to_storage(info, obj)
            try:
                return self.store.create(info.collection, key, stored)
            except ExistsError:
                if not base:
                    break
                del obj["metadata"]["name"]
        raise already_exists(info, write.name)

    async def _modify(
        self, write: Write, make: Callable[[Stored], Object], *, put: bool = False
    ) -> Stored:
        """Read, change, validate and write; start again after a concurrent write."""
        for _ in range(ATTEMPTS):
            current = self.store.get(write.info.collection, (write.namespace, write.name))
            if current is None:
                raise not_found(write.info, write.name)
            seen = await self.converter.view(write.info, current)
            new = make(seen)
            check_envelope(write, new)
            said = new["metadata"].get("resourceVersion")
            if said and said != str(current.revision):
                raise conflict(write.info, write.name)
            if put:
                _check_uid(write, new, current)
            try:
                return await self._replace(write, current, seen, new)
            except ChangedError:
                if put and said:
                    break
            except MissingError:
                raise not_found(write.info, write.name) from None
        raise conflict(write.info, write.name)

    async def _replace(
        self, write: Write, current: Stored, seen: Stored, new: Object, *, applied: bool = False
    ) -> Stored:
        """Write `new` over `current`, which the request sees as `seen`."""
        info, pipeline, old = write.info, self.pipeline, seen.obj
        pipeline.prepare(write, new, first=True)
        new = pipeline.complete_update(write, new, old)
        if not applied:
            managed_fields.on_update(
                old,
                new,
                pipeline.merge_node(info),
                manager=write.manager,
                subresource=write.subresource,
                api_version=info.api_version,
                now=timestamp(self.clock.now()),
            )
        mutated = await self._mutated(write, "UPDATE", new, old)
        if mutated is not new:
            new = pipeline.complete_update(write, mutated, old)
        pipeline.validate(write, new, old)
        await pipeline.review(write.admission("UPDATE", new, old))
        new["metadata"]["resourceVersion"] = str(current.revision)
        if write.options.dry_run:
            return Stored(new, current.revision)
        if new == old:
            return current
        return self.finish(info, current, await self.converter.to_storage(info, new))

    async def _mutated(
        self, write: Write, operation: Operation, obj: Object, old: Object | None
    ) -> Object:
        """Return the object after admission, pruned and defaulted again if it was replaced."""
        mutated = await self.pipeline.mutate(write.admission(operation, obj, old))
        if mutated is not obj:
            self.pipeline.prepare(write, mutated, first=False)
        return mutated

    async def _apply(self, write: Write, config: Any) -> Stored:
        info = write.info
        if not write.options.field_manager:
            raise _no_manager()
        body = copy(config)
        check_envelope(write, body)
        check_name(write, body["metadata"])
        if body["metadata"].get("managedFields"):
            raise bad_request("metadata.managedFields must be nil")
        if write.subresource not in {"", "status"}:
            raise method_not_allowed()
        for _ in range(ATTEMPTS):
            current = self.store.get(info.collection, (write.namespace, write.name))
            if current is None:
                if write.subresource:
                    raise not_found(info, write.name)
                return await self._create(write, self._applied(write, _bare(body), body))
            said = body["metadata"].get("resourceVersion")
            if said and said != str(current.revision):
                raise conflict(info, write.name)
            seen = await self.converter.view(info, current)
            new = self._applied(write, seen.copy(), body)
            try:
                return await self._replace(write, current, seen, new, applied=True)
            except ChangedError:
                continue
        raise conflict(info, write.name)

    def _applied(self, write: Write, live: Object, config: Object) -> Object:
        body = copy(config)
        if write.subresource == "status":
            body = {name: body[name] for name in body if name in _ENVELOPE or name == "status"}
            body["metadata"] = {"name": write.name}
        elif write.info.has_status:
            body.pop("status", None)
        new: Object = copy(
            managed_fields.apply(
                live,
                body,
                self.pipeline.merge_node(write.info),
                manager=write.manager,
                subresource=write.subresource,
                force=write.options.force,
                now=timestamp(self.clock.now()),
            )
        )
        return new


def _no_manager() -> StatusError:
    text = "is required for apply patch"
    message = f'PatchOptions.meta.k8s.io "" is invalid: fieldManager: Required value: {text}'
    causes = [meta.required("fieldManager", text).to_json()]
    details = {"group": "meta.k8s.io", "kind": "PatchOptions", "causes": causes}
    return StatusError(422, "Invalid", message, details)


_ENVELOPE = ("apiVersion", "kind", "metadata")


def _bare(config: Object) -> Object:
    kept = {k: v for k, v in config["metadata"].items() if k in {"name", "namespace"}}
    return {"apiVersion": config["apiVersion"], "kind": config["kind"], "metadata": kept}


def _check_uid(write: Write, new: Object, current: Stored) -> None:
    said, found = new["metadata"].get("uid"), current.obj["metadata"]["uid"]
    if said and said != found:
        raise conflict(write.info, write.name, uid_differs(write, said, found))


def _write(
    info: ResourceInfo,
    *,
    namespace: str,
    name: str,
    subresource: str,
    user: User,
    options: WriteOptions | None,
    warnings: list[str] | None,
    verb: str,
) -> Write:
    if subresource and subresource not in info.subresources:
        raise unknown_path()
    said = options or WriteOptions()
    collected = [] if warnings is None else warnings
    return Write(info, namespace, name, subresource, user, said, collected, verb)


def _patcher(
    kind: PatchKind, patch: Any, pipeline: WritePipeline, info: ResourceInfo
) -> Callable[[Object], Object]:
    if kind == "json":
        return lambda obj: json_patch(obj, patch)
    if not isinstance(patch, dict):
        raise bad_request("error decoding patch: the patch is no object")
    if kind == "merge":
        return lambda obj: merge_patch(obj, patch)
    return lambda obj: strategic_merge(obj, patch, pipeline.merge_node(info))
