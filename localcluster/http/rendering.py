"""Encoding of stored objects in the format that a client requested."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime

import msgspec
import yaml

from localcluster.base.errors import not_acceptable
from localcluster.base.hooks import Object
from localcluster.base.requests import JSON, WRITTEN, YAML
from localcluster.base.resources import ResourceInfo
from localcluster.base.store import Event, Stored, watch_line
from localcluster.http import table
from localcluster.http.eventviews import from_core
from localcluster.registry.reads import Page

FORMS = frozenset({"", "Table", "PartialObjectMetadata", "PartialObjectMetadataList"})
_encode = msgspec.json.encode


@dataclass(frozen=True, slots=True)
class Renderer:
    """The response format of one request. Raises StatusError 406 for an unknown form."""

    info: ResourceInfo
    media: str
    form: str
    now: datetime
    include: str = "Metadata"

    def __post_init__(self) -> None:
        """Reject unknown forms."""
        if self.form not in FORMS:
            raise not_acceptable(WRITTEN)

    @property
    def plain(self) -> bool:
        """True if stored bytes can be sent unchanged."""
        return self.media == JSON and not self.form and self.info.storage_group is None

    def one(self, stored: Stored) -> bytes:
        """Encode a single object."""
        if self.plain and stored.obj.get("apiVersion") == self.info.api_version:
            return stored.raw
        return self._write(self._shape(stored))

    def page(self, page: Page) -> bytes:
        """Encode a list."""
        meta: Object = {"resourceVersion": str(page.revision)}
        if page.continue_token:
            meta["continue"] = page.continue_token
            if page.remaining is not None:
                meta["remainingItemCount"] = page.remaining
        if self.form == "Table":
            return self._write(
                table.render(self.info, page.items, self.now, meta, include=self.include)
            )
        kind, api_version = self.info.list_kind, self.info.api_version
        if self.form:
            kind, api_version = "PartialObjectMetadataList", "meta.k8s.io/v1"
        if self.media == JSON:
            head = _encode({"kind": kind, "apiVersion": api_version, "metadata": meta})
            return head[:-1] + b',"items":[' + b",".join(self._items(page.items)) + b"]}"
        items = [self._item(item) for item in page.items]
        return self._write(
            {"kind": kind, "apiVersion": api_version, "metadata": meta, "items": items}
        )

    def lines(self) -> Callable[[Event], bytes]:
        """Return the function that encodes an event as a line of a watch stream."""
        if self.plain:
            return self._plain_line
        state = {"headers": True}

        def line(event: Event) -> bytes:
            if event.type == "ERROR":
                return event.line
            if self.form == "Table":
                obj = self._table_event(event, headers=state["headers"])
                state["headers"] = False
            else:
                obj = self._shape(event.value)
            return watch_line(event.type, _encode(obj))

        return line

    def _plain_line(self, event: Event) -> bytes:
        said = event.value.obj.get("apiVersion")
        if said == self.info.api_version or event.type == "ERROR":
            return event.line
        return watch_line(event.type, _encode(self._shape(event.value)))

    def _table_event(self, event: Event, *, headers: bool) -> Object:
        meta = {"resourceVersion": str(event.revision)}
        items = [] if event.type == "BOOKMARK" else [event.value]
        return table.render(self.info, items, self.now, meta, include=self.include, headers=headers)

    def _items(self, items: Sequence[Stored]) -> list[bytes]:
        """Encode the items of a JSON list; built-in kinds omit the kind and version of the list."""
        if self.form or self.info.storage_group is not None:
            return [_encode(self._item(item)) for item in items]
        if self.info.custom:
            return [self.one(item) for item in items]
        said = {"kind": self.info.kind, "apiVersion": self.info.api_version}
        skip = len(_encode(said))
        return [b"{" + item.raw[skip:] for item in items]

    def _item(self, stored: Stored) -> Object:
        shaped = self._shape(stored)
        if self.info.custom or self.form:
            return shaped
        return {key: value for key, value in shaped.items() if key not in {"kind", "apiVersion"}}

    def _shape(self, stored: Stored) -> Object:
        obj = stored.obj
        if obj.get("kind") == "Status":
            return obj
        if self.info.storage_group is not None:
            obj = from_core(obj)
        elif obj.get("kind") == self.info.kind and obj["apiVersion"] != self.info.api_version:
            obj = {**obj, "apiVersion": self.info.api_version}
        if self.form == "Table":
            meta = {"resourceVersion": str(stored.revision)}
            return table.render(self.info, [stored], self.now, meta, include=self.include)
        return table.partial(obj) if self.form else obj

    def _write(self, obj: Object) -> bytes:
        if self.media == YAML:
            return yaml.safe_dump(obj, sort_keys=False).encode()
        return _encode(obj)
