"""The admission step that calls webhooks: mutating in sequence, validating in parallel."""

from typing import Any

from localcluster.admission.calling import Caller, CallError, Services, gather_first_error
from localcluster.admission.conversion import Converter
from localcluster.admission.matching import Hook, Matcher, read_hook
from localcluster.admission.review import (
    AdmissionResponse,
    InvalidResponseError,
    apply_patch,
    decode,
    encode,
    in_version,
    review_version,
)
from localcluster.base import meta, resources
from localcluster.base.errors import StatusError, bad_request, internal
from localcluster.base.hooks import AdmissionRequest
from localcluster.base.resources import Registry, ResourceInfo
from localcluster.base.store import CollectionId, Event, Store

Object = dict[str, Any]

_MUTATING = resources.MUTATING_WEBHOOKS.collection
_VALIDATING = resources.VALIDATING_WEBHOOKS.collection
# As on the API server, a webhook must not be able to block the repair of webhook configurations.
_EXEMPT = frozenset({_MUTATING, _VALIDATING})


class Webhooks:
    """The admission step over the stored webhook configurations.

    Also a Part that owns connections.
    """

    def __init__(
        self, store: Store, registry: Registry, services: Services, converter: Converter
    ) -> None:
        """Create the step; `services` resolves (namespace, name) to the address of a Service."""
        self._store = store
        self._converter = converter
        self._matcher = Matcher(store, registry, converter)
        self._caller = Caller(services)
        self._hooks: dict[CollectionId, list[Hook]] = {}
        store.subscribe(self._changed)

    async def start(self) -> None:
        """Do nothing; connections are opened on first use."""

    async def stop(self) -> None:
        """Close all connections."""
        await self._caller.close()

    async def mutate(self, request: AdmissionRequest) -> None:
        """Call the mutating webhooks in the order of their configurations' names.

        A webhook with reinvocationPolicy IfNeeded is called once more if a later one changed the
        object.
        """
        if request.info.collection in _EXEMPT:
            return
        earlier: list[str] = []
        again: set[str] = set()
        for hook in self._of(_MUTATING):
            info = await self._matcher.match(hook, request)
            if info is None:
                continue
            if await self._mutate_with(hook, request, info):
                again.update(earlier)
            if hook.spec.get("reinvocationPolicy") == "IfNeeded":
                earlier.append(hook.uid)
        for hook in self._of(_MUTATING) if again else ():
            info = await self._matcher.match(hook, request) if hook.uid in again else None
            if info is not None:
                await self._mutate_with(hook, request, info)

    async def validate(self, request: AdmissionRequest) -> None:
        """Call the validating webhooks in parallel; the first rejection in order counts."""
        if request.info.collection in _EXEMPT:
            return
        matched = [
            (hook, await self._matcher.match(hook, request)) for hook in self._of(_VALIDATING)
        ]
        calls = [
            self._ask(hook, request, info, mutating=False)
            for hook, info in matched
            if info is not None
        ]
        if len(calls) == 1:
            await calls[0]
        elif calls:
            await gather_first_error(calls)

    def _changed(self, collection: CollectionId, _event: Event) -> None:
        self._hooks.pop(collection, None)

    def _of(self, collection: CollectionId) -> list[Hook]:
        hooks = self._hooks.get(collection)
        if hooks is None:
            hooks = self._hooks[collection] = [
                read_hook(spec, name, index)
                for (_, name), stored in sorted(self._store.collection(collection).objects.items())
                for index, spec in enumerate(stored.obj.get("webhooks") or ())
            ]
        return hooks

    async def _mutate_with(self, hook: Hook, request: AdmissionRequest, info: ResourceInfo) -> bool:
        verdict = await self._ask(hook, request, info, mutating=True)
        if verdict is None or not verdict.patch:
            return False
        before = (await in_version(self._converter, request, info)).obj
        if before is None:
            message = (
                f'admission webhook "{hook.name}" attempted to modify the object, which is not'
                " supported for this operation"
            )
            raise internal(message)
        try:
            after = apply_patch(before, verdict.patch)
        except StatusError as error:
            raise internal(f"patch of webhook {hook.name!r} does not apply") from error
        if request.kind is None:
            own = request.info
            (after,) = await self._converter.convert([after], own.collection, own.api_version)
        changed = after != request.obj
        request.obj = after
        return changed

    async def _ask(
        self, hook: Hook, request: AdmissionRequest, info: ResourceInfo, *, mutating: bool
    ) -> AdmissionResponse | None:
        """Return the response that admits the request; None if the webhook was skipped."""
        if request.dry_run and hook.spec["sideEffects"] not in {"None", "NoneOnDryRun"}:
            raise bad_request(f'admission webhook "{hook.name}" does not support dry run')
        try:
            verdict = await self._call(hook, request, info, mutating=mutating)
        except CallError as error:
            if hook.fails_open:
                return None
            raise internal(f'failed calling webhook "{hook.name}": {error}') from error
        request.warnings.extend(verdict.warnings)
        if not verdict.allowed:
            raise refusal(hook.name, verdict.status or {})
        return verdict

    async def _call(
        self, hook: Hook, request: AdmissionRequest, info: ResourceInfo, *, mutating: bool
    ) -> AdmissionResponse:
        version = review_version(hook.spec)
        if version is None:
            raise CallError(
                "could not create admission objects: webhook does not accept known AdmissionReview"
                " versions (v1, v1beta1)"
            )
        uid = meta.new_uid()
        seen = await in_version(self._converter, request, info)
        body = encode(request, info, seen, uid=uid, version=version)
        timeout = hook.spec.get("timeoutSeconds") or 10
        try:
            answer = await self._caller.post(hook.spec["clientConfig"], body, timeout)
            return decode(answer, uid=uid, version=version, mutating=mutating)
        except InvalidResponseError as error:
            raise CallError(f"received invalid webhook response: {error}") from error
        except (CallError, ValueError) as error:
            raise CallError(f"failed to call webhook: {error}") from error


def refusal(name: str, status: Object) -> StatusError:
    """Return the error for a webhook's rejection, with its own code, reason and causes."""
    denied = f'admission webhook "{name}" denied the request'
    reason = status.get("reason") or ""
    explanation = status.get("message") or reason
    return StatusError(
        max(int(status.get("code") or 0), 400),
        reason,
        f"{denied}: {explanation}" if explanation else f"{denied} without explanation",
        status.get("details"),
    )
