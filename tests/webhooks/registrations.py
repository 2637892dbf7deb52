"""Webhook configurations and CRDs of an API server, in memory."""

from __future__ import annotations

import copy
from typing import Any

from kube.errors import AlreadyExists, NotFound
from kube.patch import PatchBuilder
from kube.resources import Resource
from tests.support.patching import patched


class FakeRegistrations:
    """Keeps objects by kind and name; `problem` is raised by every call while it is set."""

    def __init__(self, *objects: dict[str, Any]) -> None:
        self.objects = {(obj["kind"], obj["metadata"]["name"]): obj for obj in objects}
        self.writes = 0
        self.problem: Exception | None = None
        for obj in objects:
            obj["metadata"].setdefault("resourceVersion", "1")

    async def get(
        self, resource: Resource, name: str, namespace: str | None = None
    ) -> dict[str, Any]:
        self._check()
        return copy.deepcopy(self._found(resource, name))

    async def create(
        self, resource: Resource, obj: dict[str, Any], namespace: str | None = None
    ) -> dict[str, Any]:
        self._check()
        key = (resource.kind, obj["metadata"]["name"])
        if key in self.objects:
            raise AlreadyExists(409, "AlreadyExists", key[1])
        return self._stored(key, obj)

    async def patch(
        self, resource: Resource, name: str, ops: PatchBuilder, namespace: str | None = None
    ) -> dict[str, Any]:
        self._check()
        return self._stored((resource.kind, name), patched(self._found(resource, name), ops))

    def webhooks(self) -> list[dict[str, Any]]:
        """Every webhook of every configuration."""
        return [webhook for obj in self.objects.values() for webhook in obj.get("webhooks", ())]

    def _found(self, resource: Resource, name: str) -> dict[str, Any]:
        try:
            return self.objects[resource.kind, name]
        except KeyError:
            raise NotFound(404, "NotFound", name) from None

    def _stored(self, key: tuple[str, str], obj: dict[str, Any]) -> dict[str, Any]:
        self.writes += 1
        stored = copy.deepcopy(obj)
        stored["metadata"]["resourceVersion"] = f"written-{self.writes}"
        self.objects[key] = stored
        return copy.deepcopy(stored)

    def _check(self) -> None:
        if self.problem is not None:
            raise self.problem
