"""Conversion of custom resources to another version, by apiVersion alone or by a webhook."""

import json
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from localcluster.admission.calling import Caller, CallError
from localcluster.base import meta, resources
from localcluster.base.errors import StatusError
from localcluster.base.resources import ResourceInfo
from localcluster.base.store import CollectionId, Event, Store, Stored

Object = dict[str, Any]
Trim = Callable[[CollectionId, str, Object], None]

REVIEWS = {
    "v1": "apiextensions.k8s.io/v1",
    "v1beta1": "apiextensions.k8s.io/v1beta1",
}
TIMEOUT_SECONDS = 30


class ConversionError(Exception):
    """The webhook's response is not a valid conversion of the objects sent to it."""


class Converter:
    """Converter that follows the stored definitions and caches converted objects."""

    def __init__(self, store: Store, caller: Caller, trim: Trim | None = None) -> None:
        """Create a converter; `trim` prunes an object by the schema of (collection, version)."""
        self._store = store
        self._caller = caller
        self._trim = trim
        self._epoch = 0  # epoch of the definitions; views of an earlier epoch are stale
        store.subscribe(self._changed)

    async def close(self) -> None:
        """Close all connections."""
        await self._caller.close()

    async def convert(
        self, objects: Sequence[Object], collection: CollectionId, api_version: str
    ) -> list[Object]:
        """Return the objects in that version; those already in it are returned unchanged.

        The input is never modified. Raises StatusError 500 when the webhook fails.
        """
        others = [one for one in objects if not _is_in(one, api_version)]
        if not others:
            return list(objects)
        try:
            made = await self._convert(others, collection, api_version)
        except ConversionError as error:
            raise StatusError(500, "", f"conversion webhook for {error}") from error
        if self._trim is not None:
            for one in made:
                self._trim(collection, api_version.rpartition("/")[2], one)
        rest = iter(made)
        return [one if _is_in(one, api_version) else next(rest) for one in objects]

    async def to_storage(self, info: ResourceInfo, obj: Object) -> Object:
        """Return the object in the storage version of its kind."""
        if not info.custom or info.version == info.storage_version:
            return obj
        stored = f"{info.group}/{info.storage_version}"
        return (await self.convert([obj], info.collection, stored))[0]

    async def view(self, info: ResourceInfo, stored: Stored) -> Stored:
        """Return a stored object in the version of `info`.

        Callers share it and must not change it.
        """
        return (await self.views(info, [stored]))[0]

    async def views(self, info: ResourceInfo, stored: Sequence[Stored]) -> Sequence[Stored]:
        """Return stored objects in the version of `info`, with one webhook call for all of them."""
        others = [one for one in stored if _differs(info, one)] if info.custom else []
        if not others:
            return stored
        key = (self._epoch, info.api_version)
        unknown = [one for one in others if key not in one.views]
        made = await self.convert(
            [one.copy() for one in unknown], info.collection, info.api_version
        )
        for one, obj in zip(unknown, made, strict=True):
            one.views = {known: view for known, view in one.views.items() if known[0] == key[0]}
            one.views[key] = Stored(obj, one.revision)
        return [one.views[key] if _differs(info, one) else one for one in stored]

    async def events(self, info: ResourceInfo, events: list[Event]) -> list[Event]:
        """Return the events of a watch with their objects in the version of `info`."""
        values = await self.views(info, [event.value for event in events])
        return [
            event if value is event.value else Event(event.type, value)
            for event, value in zip(events, values, strict=True)
        ]

    def _changed(self, collection: CollectionId, _event: Event) -> None:
        if collection == resources.CRDS.collection:
            self._epoch += 1

    async def _convert(
        self, objects: list[Object], collection: CollectionId, api_version: str
    ) -> list[Object]:
        group, plural = collection
        crd = self._store.get(resources.CRDS.collection, ("", f"{plural}.{group}"))
        conversion = (crd.obj["spec"].get("conversion") if crd else None) or {}
        if conversion.get("strategy") != "Webhook":
            return [{**one, "apiVersion": api_version} for one in objects]
        subject = f"{objects[0]['apiVersion']}, Kind={objects[0]['kind']}"
        try:
            converted = await self._ask(conversion["webhook"], objects, api_version)
        except (ConversionError, CallError, ValueError) as error:
            raise ConversionError(f"{subject} failed: {error}") from error
        if len(converted) != len(objects):
            words = f"returned {len(converted)} objects, expected {len(objects)}"
            raise ConversionError(f"{subject} {words}")
        return [
            _checked(subject, index, before, after, api_version)
            for index, (before, after) in enumerate(zip(objects, converted, strict=True))
        ]

    async def _ask(self, webhook: Object, objects: list[Object], api_version: str) -> list[Object]:
        spoken = [one for one in webhook["conversionReviewVersions"] if one in REVIEWS]
        uid = meta.new_uid()
        request = {"uid": uid, "desiredAPIVersion": api_version, "objects": objects}
        review = {"kind": "ConversionReview", "apiVersion": REVIEWS[spoken[0]], "request": request}
        body = msgspec.json.encode(review)
        answer = await self._caller.post(webhook["clientConfig"], body, TIMEOUT_SECONDS)
        return _read(answer, uid)


def _is_in(obj: Object, api_version: str) -> bool:
    return bool(obj.get("apiVersion", api_version) == api_version)


def _differs(info: ResourceInfo, stored: Stored) -> bool:
    obj = stored.obj
    return obj.get("kind") == info.kind and obj["apiVersion"] != info.api_version


def _read(answer: bytes, uid: str) -> list[Object]:
    """Return the converted objects of a response.

    Raises ConversionError, or ValueError if not JSON.
    """
    review = json.loads(answer)
    response = review.get("response") if isinstance(review, dict) else None
    if not isinstance(response, dict):
        raise ConversionError("no response provided")
    if response.get("uid") != uid:
        got = json.dumps(response.get("uid") or "")
        raise ConversionError(f'expected response.uid="{uid}", got {got}')
    result = response.get("result") or {}
    if result.get("status") != "Success":
        words = f"response.result.status was '{result.get('status') or ''}', not 'Success'"
        raise ConversionError(result.get("message") or words)
    return response.get("convertedObjects") or []


def _checked(subject: str, index: int, before: Object, after: Object, api_version: str) -> Object:
    """Return a converted object with the metadata no webhook may change. Raises ConversionError."""
    said = f"{subject} returned invalid converted object at index {index}"
    if after.get("apiVersion") != api_version:
        words = f"invalid groupVersion (expected {api_version}, received {after.get('apiVersion')})"
        raise ConversionError(f"{said}: {words}")
    if after.get("kind") != before["kind"]:
        words = f"invalid kind (expected {before['kind']}, received {after.get('kind')})"
        raise ConversionError(f"{said}: {words}")
    new, old = after.get("metadata") or {}, before["metadata"]
    for field in ("name", "namespace", "uid"):
        if new.get(field) != old.get(field):
            words = f"must have the same {field}: {new.get(field)} != {old.get(field)}"
            raise ConversionError(f"{subject} returned invalid metadata at index {index}: {words}")
    kept = {name: value for name, value in old.items() if name not in _CONVERTED_METADATA}
    given = {name: new[name] for name in _CONVERTED_METADATA if new.get(name)}
    return {**after, "metadata": {**kept, **given}}


_CONVERTED_METADATA = ("labels", "annotations")
