"""Webhook configurations of an API server."""

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from kube.client.meta import Json
from kube.client.resources import CRDS, MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS
from tests.support.memory_api import WRITES, MemoryApi

_KINDS = {it.kind: it for it in (MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS, CRDS)}


class Registrations(MemoryApi):
    """An API server on which these objects are installed."""

    def __init__(self, *objects: Json) -> None:
        super().__init__()
        for obj in objects:
            self.install(obj)

    def install(self, obj: Json) -> None:
        self.put(_KINDS[obj["kind"]], obj)

    @property
    def configurations(self) -> list[Json]:
        return [obj for kind in _KINDS.values() for obj in self.all(kind) if "webhooks" in obj]

    @property
    def writes(self) -> int:
        """The number of writes."""
        return sum(request.verb in WRITES for request in self.sent)

    def webhooks(self) -> list[Json]:
        """Every webhook of every configuration."""
        return [webhook for obj in self.configurations for webhook in obj["webhooks"]]

    @contextmanager
    def changed(self) -> Iterator[list[Any]]:
        """Yield every webhook to change as a user would."""
        configurations = copy.deepcopy(self.configurations)
        yield [webhook for obj in configurations for webhook in obj["webhooks"]]
        for obj in configurations:
            self.install(obj)
