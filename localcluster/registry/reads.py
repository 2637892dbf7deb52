"""Get, list and watch."""

import base64
import json
from collections.abc import Sequence
from dataclasses import dataclass

from localcluster.base.errors import (
    Cause,
    bad_request,
    expired,
    invalid,
    not_found,
    too_large,
    too_old,
)
from localcluster.base.resources import ResourceInfo
from localcluster.base.selectors import parse_fields, parse_labels
from localcluster.base.store import CompactedError, Event, Key, Store, Stored
from localcluster.base.watch import Matcher, Watch, bookmark, everything

CONTINUE_EXPIRED = (
    "The provided continue parameter is too old to display a consistent list result. You can "
    "start a new list without the continue parameter, or use the continue token in this response "
    "to retrieve the remainder of the results. Continuing with the provided token results in an "
    "inconsistent list - objects that were created, modified, or deleted between the time the "
    "first chunk was returned and now may show up in the list."
)


@dataclass(frozen=True, slots=True)
class Page:
    """A list or a part of one, at one revision."""

    items: list[Stored]
    revision: int
    continue_token: str = ""
    remaining: int | None = None


def matcher(
    info: ResourceInfo, namespace: str, label_selector: str, field_selector: str
) -> Matcher:
    """Return the matcher of a request's selectors. Raises StatusError 400."""
    labels = parse_labels(label_selector)
    fields = parse_fields(info, field_selector)
    if not (namespace or labels.requirements or fields.terms):
        return everything

    def matches(value: Stored) -> bool:
        meta = value.obj["metadata"]
        if namespace and meta.get("namespace", "") != namespace:
            return False
        if labels.requirements and not labels.matches(meta.get("labels")):
            return False
        return not fields.terms or fields.matches(value.obj)

    return matches


def revision_of(text: str) -> int:
    """Parse a resourceVersion, 0 if empty. Raises StatusError 400."""
    if not text:
        return 0
    if not text.isdecimal():
        why = f'strconv.ParseUint: parsing "{text}": invalid syntax'
        raise bad_request(
            f'invalid resource version: resourceVersion: Invalid value: "{text}": {why}'
        )
    return int(text)


class Reader:
    """The part of the server that reads."""

    def __init__(self, store: Store, *, bookmark_every: float = 10.0) -> None:
        """Read from a store; watches that request bookmarks get one every `bookmark_every` s."""
        self._store = store
        self._bookmark_every = bookmark_every
        self.watches: set[Watch] = set()

    def get(self, info: ResourceInfo, name: str, namespace: str = "") -> Stored:
        """Return one object. Raises StatusError 404."""
        stored = self._store.get(info.collection, (namespace, name))
        if stored is None:
            raise not_found(info, name)
        return stored

    def list(
        self,
        info: ResourceInfo,
        namespace: str = "",
        *,
        label_selector: str = "",
        field_selector: str = "",
        limit: int = 0,
        continue_token: str = "",
        revision: str = "",
        match: str = "",
    ) -> Page:
        """Return the selected objects in the order of the keys, at most `limit`.

        Raises StatusError 400 for an invalid selector or token, 410 if the revision is no longer in
        the history, 504 if it is in the future.
        """
        matches = matcher(info, namespace, label_selector, field_selector)
        after: Key | None = None
        at = revision_of(revision)
        if at > self._store.revision:
            raise too_large(at, self._store.revision)
        exact = at if match == "Exact" else 0
        if continue_token:
            exact, after = _decode(continue_token)
        if exact < 0:
            exact = self._store.revision
        state = self._state(info, namespace, exact)
        at = exact or self._store.revision
        counted = not (label_selector or field_selector)
        return _page(state, matches, limit=limit, after=after, revision=at, counted=counted)

    def watch(
        self,
        info: ResourceInfo,
        namespace: str = "",
        *,
        label_selector: str = "",
        field_selector: str = "",
        revision: str = "",
        match: str = "",
        bookmarks: bool = False,
        send_initial: bool | None = None,
        timeout: float | None = None,
    ) -> Watch:
        """Return a stream of changes after a revision.

        Without one, existing objects come first as ADDED.

        A revision that is no longer in the history results in a stream that reports 410 and ends.
        Raises StatusError 400 or 422 for invalid options, 504 for a revision in the future.
        """
        _check_initial(info, send_initial, match)
        matches = matcher(info, namespace, label_selector, field_selector)
        collection = self._store.collection(info.collection)
        since = revision_of(revision)
        if since > self._store.revision:
            raise too_large(since, self._store.revision)
        initial: list[Event] = []
        compacted: int | None = None
        if send_initial or (since == 0 and send_initial is None):
            initial = [
                Event("ADDED", collection.objects[key])
                for key in collection.span(namespace)
                if matches(collection.objects[key])
            ]
            if send_initial and bookmarks:
                initial.append(bookmark(info, self._store.revision, initial_end=True))
        elif since:
            try:
                initial = list(collection.since(since))
            except CompactedError as error:
                compacted = error.oldest
        stream = Watch(
            collection,
            matches,
            initial=initial,
            replay=bool(since) and not send_initial,
            timeout=timeout,
            make_bookmark=(lambda: bookmark(info, self._store.revision)) if bookmarks else None,
            bookmark_every=self._bookmark_every,
            on_close=self.watches.discard,
        )
        self.watches.add(stream)
        if compacted is not None:
            stream.fail(too_old(since, compacted))
        return stream

    def expire(self) -> None:
        """Drop the history: running watches and later requests for older revisions get 410."""
        revision = self._store.revision
        self._store.expire()
        for stream in list(self.watches):
            stream.fail(too_old(revision, revision + 1))

    def close_watches(self) -> None:
        """End all watches, as a server does that shuts down."""
        for stream in list(self.watches):
            stream.close()

    def _state(
        self, info: ResourceInfo, namespace: str, exact: int
    ) -> tuple[dict[Key, Stored], Sequence[Key]]:
        collection = self._store.collection(info.collection)
        if not exact or exact == self._store.revision:
            return collection.objects, collection.span(namespace)
        try:
            objects = self._store.snapshot(info.collection, exact)
        except CompactedError as error:
            raise expired(CONTINUE_EXPIRED) from error
        return objects, sorted(key for key in objects if not namespace or key[0] == namespace)


def _page(
    state: tuple[dict[Key, Stored], Sequence[Key]],
    matches: Matcher,
    *,
    limit: int,
    after: Key | None,
    revision: int,
    counted: bool,
) -> Page:
    objects, keys = state
    items: list[Stored] = []
    for index, key in enumerate(keys):
        if after is not None and key <= after:
            continue
        value = objects[key]
        if not matches(value):
            continue
        if limit and len(items) == limit:
            left = len(keys) - index if counted else None
            return Page(items, revision, _encode(revision, items[-1].key), left)
        items.append(value)
    return Page(items, revision)


def _encode(revision: int, last: Key) -> str:
    text = json.dumps({"v": "meta.k8s.io/v1", "rv": revision, "start": list(last)})
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def _decode(token: str) -> tuple[int, Key]:
    try:
        padded = token + "=" * (-len(token) % 4)
        value = json.loads(base64.urlsafe_b64decode(padded))
        namespace, name = value["start"]
        return int(value["rv"]), (namespace, name)
    except (ValueError, KeyError, TypeError) as error:
        raise bad_request(
            "invalid continue token: continue key is not valid: not made by this server"
        ) from error


def _check_initial(info: ResourceInfo, send_initial: bool | None, match: str) -> None:
    text = ""
    if send_initial is not None and match != "NotOlderThan":
        text = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"
    if send_initial is None and match:
        text = "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"
    if text:
        cause = Cause("resourceVersionMatch", "FieldValueForbidden", f"Forbidden: {text}")
        raise invalid(info, "", [cause], "ListOptions")
