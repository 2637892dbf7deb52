"""The steps of every write: decoding, defaulting, admission, validation, metadata."""

from dataclasses import dataclass, field
from typing import Any

from localcluster.base import meta
from localcluster.base.clock import timestamp
from localcluster.base.errors import Cause, StatusError, bad_request, invalid
from localcluster.base.hooks import (
    Admission,
    AdmissionRequest,
    Object,
    Schemas,
    User,
    WriteOptions,
)
from localcluster.base.merge_node import MergeNode
from localcluster.base.resources import CRDS, ResourceInfo
from localcluster.base.store import CollectionId
from localcluster.base.strategy import Custom, Strategy, spec_differs
from localcluster.definitions.merging import GENERAL, built_in_rules

SYSTEM = User("system:apiserver", ("system:masters",))


@dataclass(slots=True)
class Write:
    """One write request, and the warnings collected for it."""

    info: ResourceInfo
    namespace: str
    name: str = ""
    subresource: str = ""
    user: User = SYSTEM
    options: WriteOptions = field(default_factory=WriteOptions)
    warnings: list[str] = field(default_factory=list)
    verb: str = ""

    @property
    def manager(self) -> str:
        """The field manager's name."""
        return self.options.field_manager or self.user.name

    def admission(self, operation: Any, obj: Object | None, old: Object | None) -> AdmissionRequest:
        """Return the request as admission sees it."""
        return AdmissionRequest(
            operation=operation,
            info=self.info,
            namespace=self.namespace,
            name=self.name,
            obj=obj,
            old=old,
            user=self.user,
            subresource=self.subresource,
            dry_run=self.options.dry_run,
            options=_options_json(operation, self.options),
            warnings=self.warnings,
        )


def _options_json(operation: str, options: WriteOptions) -> Object:
    out: Object = {"kind": f"{operation.capitalize()}Options", "apiVersion": "meta.k8s.io/v1"}
    if options.dry_run:
        out["dryRun"] = ["All"]
    if options.field_manager:
        out["fieldManager"] = options.field_manager
    if options.field_validation != "Ignore":
        out["fieldValidation"] = options.field_validation
    return out


class NoSchemas:
    """The schemas of a server without custom resources."""

    def prepare(self, info: ResourceInfo, obj: Object) -> list[str]:  # noqa: ARG002
        """Report no unknown fields."""
        return []

    def validate(
        self,
        info: ResourceInfo,  # noqa: ARG002
        new: Object,  # noqa: ARG002
        old: Object | None,  # noqa: ARG002
        subresource: str = "",  # noqa: ARG002
    ) -> list[Cause]:
        """Report no errors."""
        return []

    def merge_node(self, info: ResourceInfo) -> MergeNode | None:  # noqa: ARG002
        """Return no merge rules."""
        return None


def check_envelope(write: Write, obj: Any) -> None:
    """Check that the body is an object of this kind, for this namespace and name. Raises 400."""
    info = write.info
    if not isinstance(obj, dict):
        raise bad_request("the body of the request is no object")
    for name, wanted in (("apiVersion", info.api_version), ("kind", info.kind)):
        said = obj.get(name)
        if not said and info.custom:
            raise bad_request(f"Object '{name[0].upper()}{name[1:]}' is missing in the request")
        if said and said != wanted:
            raise bad_request(
                f"{obj.get('kind')} in version {obj.get('apiVersion')!r} cannot be handled as a "
                f"{info.kind}: expected {info.api_version} {info.kind}"
            )
    obj.update(apiVersion=info.api_version, kind=info.kind)
    if not isinstance(obj.setdefault("metadata", {}), dict):
        raise bad_request("metadata is no object")
    _check_namespace(write, obj["metadata"])


def _check_namespace(write: Write, metadata: Object) -> None:
    if not write.info.namespaced:
        metadata.pop("namespace", None)
        return
    if not write.namespace:
        raise bad_request("an empty namespace may not be set during creation")
    if metadata.get("namespace") not in {None, "", write.namespace}:
        raise bad_request(
            "the namespace of the provided object does not match the namespace sent on the request"
        )
    metadata["namespace"] = write.namespace


def check_name(write: Write, metadata: Object) -> None:
    """Check that an update is for the object in the URL. Raises 400."""
    said = metadata.setdefault("name", write.name)
    if said != write.name:
        raise bad_request(
            f"the name of the object ({said}) does not match the name on the URL ({write.name})"
        )


def uid_differs(write: Write, said: str, found: str) -> str:
    """Return the API server's storage error for a UID precondition that fails."""
    return (
        f"StorageError: invalid object, Code: 4, Key: /registry/{write.info.plural}/"
        f"{write.namespace}/{write.name}, ResourceVersion: 0, AdditionalErrorMsg: Precondition "
        f"failed: UID in precondition: {said}, UID in object meta: {found}"
    )


def first_strings_only(metadata: Object) -> None:
    """Check that labels and annotations are strings, as typed decoding requires. Raises 400."""
    for name in ("labels", "annotations"):
        values = metadata.get(name)
        if values is None:
            metadata.pop(name, None)
            continue
        if not isinstance(values, dict) or not all(isinstance(v, str) for v in values.values()):
            raise bad_request(f"metadata.{name}: every value must be a string")


def _strictly(info: ResourceInfo, unknown: list[str]) -> str:
    """Return the message for unknown fields under strict decoding; typed kinds are named first."""
    words = "strict decoding error: " + ", ".join(unknown)
    kind = f'{info.kind} in version "{info.version}"'
    return words if info.custom else f"{kind} cannot be handled as a {info.kind}: {words}"


class WritePipeline:
    """Defaulting, pruning, admission and validation, in the order of the API server."""

    def __init__(
        self, schemas: Schemas, admission: list[Admission], strategies: dict[CollectionId, Strategy]
    ) -> None:
        """Create a pipeline; the list of admission steps may grow later."""
        self.schemas = schemas
        self.admission = admission
        self.strategies = strategies
        self._plain = Strategy()
        self._custom = Custom()

    def strategy(self, info: ResourceInfo) -> Strategy:
        """Return the rules of a kind."""
        found = self.strategies.get(info.collection)
        if found is not None:
            return found
        return self._custom if info.custom else self._plain

    def merge_node(self, info: ResourceInfo) -> MergeNode:
        """Return the merge rules of a kind."""
        return self.schemas.merge_node(info) or (
            GENERAL if info.custom else built_in_rules(info.collection)
        )

    def prepare(self, write: Write, obj: Object, *, first: bool) -> None:
        """Prune and default; at the `first` call warn about unknown fields or reject them.

        Raises 400.
        """
        first_strings_only(obj["metadata"])
        unknown = self.schemas.prepare(write.info, obj)
        self.strategy(write.info).default(obj)
        if not unknown or not first:
            return
        if write.options.field_validation == "Strict":
            raise bad_request(_strictly(write.info, unknown))
        if write.options.field_validation == "Warn":
            write.warnings.extend(unknown)

    async def mutate(self, request: AdmissionRequest) -> Object:
        """Return the object after all mutating steps."""
        for step in self.admission:
            await step.mutate(request)
        if request.obj is None:
            raise StatusError(500, "InternalError", "admission lost the object")
        return request.obj

    async def review(self, request: AdmissionRequest) -> None:
        """Call all validating steps."""
        for step in self.admission:
            await step.validate(request)

    def validate(self, write: Write, new: Object, old: Object | None) -> None:
        """Apply all validation rules to the object. Raises 422 with every cause."""
        info, strategy = write.info, self.strategy(write.info)
        loose = info.custom or info.group == CRDS.group
        causes = meta.causes_of(new["metadata"], info.collection, custom=loose)
        if old is not None:
            causes += meta.update_causes(new["metadata"], old["metadata"])
        schema_causes = self.schemas.validate(info, new, old, write.subresource)
        causes += schema_causes
        if write.subresource == "status" and old is not None:
            causes += strategy.authorize_status(write.user, write.verb, new, old)
            causes += strategy.validate_status(new, old)
        elif not schema_causes:
            if old is None:
                causes += strategy.validate_create(new)
            causes += strategy.validate(new)
            if old is not None:
                causes += strategy.validate_update(new, old)
        if causes:
            raise invalid(info, new["metadata"].get("name", ""), causes)
        write.warnings.extend(strategy.warnings(new))

    def complete_new(self, info: ResourceInfo, obj: Object, now: Any) -> None:
        """Set a new object's name, UID, time and generation, and reset its status."""
        metadata, strategy = obj["metadata"], self.strategy(info)
        if not metadata.get("name") and metadata.get("generateName"):
            metadata["name"] = meta.generate_name(metadata["generateName"])
        metadata["uid"] = meta.new_uid()
        metadata["creationTimestamp"] = timestamp(now)
        for name in ("deletionTimestamp", "deletionGracePeriodSeconds", "selfLink", "generation"):
            metadata.pop(name, None)
        meta.dedupe_owners(metadata)
        if strategy.generation:
            metadata["generation"] = 1
        if info.has_status and info.custom:
            obj.pop("status", None)
        strategy.prepare_create(obj)

    def complete_update(self, write: Write, new: Object, old: Object) -> Object:
        """Restore the fields that this request may not change, and update the generation."""
        strategy = self.strategy(write.info)
        if write.subresource == "status":
            new = _only_status(new, old, keep_metadata=strategy.status_keeps_metadata)
        elif write.info.has_status:
            new.pop("status", None)
            if "status" in old:
                new["status"] = old["status"]
        meta.dedupe_owners(new["metadata"])
        if write.subresource == "status":
            strategy.prepare_status(new, old)
        else:
            strategy.prepare_update(new, old)
        meta.carry_over(new["metadata"], old["metadata"])
        if strategy.generation and spec_differs(write.info, new, old):
            new["metadata"]["generation"] = old["metadata"].get("generation", 0) + 1
        return new


def _only_status(new: Object, old: Object, *, keep_metadata: bool) -> Object:
    out = {name: value for name, value in old.items() if name not in {"status", "metadata"}}
    metadata = dict(old["metadata"] if keep_metadata else new["metadata"])
    if "managedFields" in new["metadata"]:
        metadata["managedFields"] = new["metadata"]["managedFields"]
    if not keep_metadata and "ownerReferences" in old["metadata"]:
        metadata["ownerReferences"] = old["metadata"]["ownerReferences"]
    out["metadata"] = metadata
    if "status" in new:
        out["status"] = new["status"]
    return out
