"""After any faults, a complete list and a quiet watch make a sink equal to the server.

A model of an API server changes its objects at any time. Lists break between any two pages or in
the middle of one, watches end anywhere, history expires. Names are few, so that they are reused.
"""

import json
from collections.abc import Iterable
from typing import Any

import msgspec
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule

from kube.client.meta import Key, ObjectMeta
from kube.informers.watching import Change, Deleted, Undecodable, Upserted, WatchState


class Thing(msgspec.Struct):
    metadata: ObjectMeta
    size: int = 0


NAMES = st.sampled_from(["a", "b", "c", "d"])
PAGE = 2
ODD = "not a number"


class FollowedServer(RuleBasedStateMachine):
    """The server's objects by name, its events by version, and the calls of one sink."""

    def __init__(self) -> None:
        super().__init__()
        self.version = 0
        self.objects: dict[str, dict[str, Any]] = {}
        self.events: list[tuple[int, bytes]] = []
        self.expired = 0
        self.state: WatchState[Thing] = WatchState(msgspec.json.Decoder(Thing).decode)
        self.sink: dict[Key, str] = {}
        self.left_out: set[Key] = set()
        self.pages: list[bytes] = []

    # The server

    @rule(name=NAMES, odd=st.booleans())
    def create_or_change(self, name: str, odd: bool) -> None:
        known = self.objects.get(name)
        uid = known["metadata"]["uid"] if known else f"{name}-{self.version}"
        self._store("MODIFIED" if known else "ADDED", name, uid, odd)

    @rule(name=NAMES)
    def delete(self, name: str) -> None:
        gone = self.objects.pop(name, None)
        if gone is not None:
            self.version += 1
            gone["metadata"]["resourceVersion"] = str(self.version)
            self._tell("DELETED", gone)

    @rule(name=NAMES, odd=st.booleans())
    def replace(self, name: str, odd: bool) -> None:
        self.delete(name)
        self._store("ADDED", name, f"{name}-{self.version}", odd)

    @rule()
    def expire(self) -> None:
        self.expired = self.version
        self.events.clear()

    # The client

    @precondition(lambda self: self.state.version is None)
    @rule()
    def begin_list(self) -> None:
        self.state.begin_list()
        items = [self.objects[name] for name in sorted(self.objects)]
        parts = [items[i : i + PAGE] for i in range(0, len(items), PAGE)] or [[]]
        tokens = ["more"] * (len(parts) - 1) + [""]
        meta = {"resourceVersion": str(self.version)}
        self.pages = [
            json.dumps({"metadata": meta | {"continue": token}, "items": part}).encode()
            for part, token in zip(parts, tokens, strict=True)
        ]

    @precondition(lambda self: self.pages)
    @rule()
    def read_page(self) -> None:
        changes, token = self.state.feed_page(self.pages.pop(0))
        self._apply(changes)
        if not token:
            self._apply(self.state.end_list())

    @precondition(lambda self: self.pages)
    @rule(most=st.integers(0, PAGE - 1))
    def break_off_within_a_page(self, most: int) -> None:
        changes, _ = self.state.feed_page(self.pages[0])
        self._apply(change for _, change in zip(range(most), changes, strict=False))
        self.pages = []

    @precondition(lambda self: self.pages)
    @rule()
    def break_off_between_pages(self) -> None:
        self.pages = []

    @precondition(lambda self: self.state.version is not None)
    @rule(most=st.integers(1, 5))
    def watch(self, most: int) -> None:
        since = int(self.state.version or 0)
        if since < self.expired:
            self.state.forget()
            return
        for _, line in [event for event in self.events if event[0] > since][:most]:
            self._apply(self.state.feed(line))

    def teardown(self) -> None:
        if self.state.version is None or int(self.state.version) < self.expired:
            self.state.forget()
            self.begin_list()
            while self.pages:
                self.read_page()
        self.watch(len(self.events) + 1)
        uids = {name: obj["metadata"]["uid"] for name, obj in self.objects.items()}
        odd = {name for name, obj in self.objects.items() if obj["size"] == ODD}
        held = {name: uid for (_, name), uid in self.sink.items()}
        # The previous state of an odd object may remain, but never another object of its name.
        assert {name: uid for name, uid in held.items() if uids.get(name) != uid} == {}
        assert uids.keys() - held.keys() <= odd
        assert {name for _, name in self.left_out} == odd

    def _store(self, kind: str, name: str, uid: str, odd: bool) -> None:
        self.version += 1
        meta = {"name": name, "namespace": "ns", "uid": uid, "resourceVersion": str(self.version)}
        self.objects[name] = {"metadata": meta, "size": ODD if odd else self.version}
        self._tell(kind, self.objects[name])

    def _tell(self, kind: str, obj: dict[str, Any]) -> None:
        self.events.append((self.version, json.dumps({"type": kind, "object": obj}).encode()))

    def _apply(self, changes: Iterable[Change[Thing]]) -> None:
        for change in changes:
            match change:
                case Upserted(obj):
                    self.sink[obj.metadata.key] = obj.metadata.uid
                    self.left_out.discard(obj.metadata.key)
                case Deleted(key):
                    self.sink.pop(key, None)
                    self.left_out.discard(key)
                case Undecodable(key):
                    self.left_out.add(key)


TestFollowedServer = FollowedServer.TestCase
