"""An in-process server with custom resources and webhooks, for tests."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from localcluster.admission.calling import Caller
from localcluster.admission.conversion import Converter
from localcluster.admission.webhooks import Webhooks
from localcluster.base import resources
from localcluster.base.clock import SystemClock
from localcluster.base.resources import BUILT_IN, Registry, ResourceInfo
from localcluster.base.store import Store
from localcluster.custom.crd import CustomResources
from localcluster.registry.api import Api

Object = dict[str, Any]


@dataclass
class ApiServer:
    """The parts of one server."""

    store: Store
    registry: Registry
    custom: CustomResources
    webhooks: Webhooks
    api: Api
    services: dict[tuple[str, str], tuple[str, int]] = field(default_factory=dict)

    async def add(self, info: ResourceInfo, obj: Object, namespace: str = "") -> Object:
        """Create an object and return the stored one."""
        return (await self.api.create(info, obj, namespace)).obj

    async def define(self, crd: Object) -> ResourceInfo:
        """Create a definition and return the ResourceInfo of its first version."""
        await self.api.create(resources.CRDS, crd)
        spec = crd["spec"]
        name = (spec["group"], spec["versions"][0]["name"], spec["names"]["plural"])
        await until(lambda: self.registry.lookup(*name) is not None)
        info = self.registry.lookup(*name)
        assert info is not None
        return info


async def until(condition: Callable[[], bool]) -> None:
    """Run the loop until a condition is true; there is no other work in the loop."""
    for _ in range(1000):
        if condition():
            return
        await asyncio.sleep(0)
    raise AssertionError("the condition was not reached")


class HastyClock(SystemClock):
    """The machine's clock, except that sleeping takes one loop iteration."""

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(0)


async def make_api_server() -> ApiServer:
    """Return a server with the namespace `default`."""
    store, registry, clock = Store(), Registry(BUILT_IN), HastyClock()
    services: dict[tuple[str, str], tuple[str, int]] = {}
    custom = CustomResources(store, registry, clock)
    converter = Converter(store, Caller(services), custom.trim)
    api = Api(store=store, registry=registry, clock=clock, schemas=custom, converter=converter)
    custom.attach(api.delete)
    api.admission.append(custom.hold)
    webhooks = Webhooks(store, registry, services, converter)
    api.admission.append(webhooks)
    await api.create(resources.NAMESPACES, {"metadata": {"name": "default"}})
    return ApiServer(store, registry, custom, webhooks, api, services)


def make_crd(plural: str = "widgets", kind: str = "Widget", **spec: Any) -> Object:
    """Return a definition of `plural`.t.muster.dev with a spec {a: string, n: integer}."""
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "subresources": {"status": {}},
        "schema": {
            "openAPIV3Schema": {
                "type": "object",
                "description": "A widget.",
                "properties": {
                    "spec": {
                        "type": "object",
                        "properties": {
                            "a": {"type": "string", "default": "x", "description": "The letter."},
                            "n": {"type": "integer", "minimum": 1},
                        },
                    },
                    "status": {"type": "object", "properties": {"n": {"type": "integer"}}},
                },
            }
        },
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.t.muster.dev"},
        "spec": {
            "group": "t.muster.dev",
            "scope": "Namespaced",
            "names": {"plural": plural, "kind": kind},
            "versions": [version],
            **spec,
        },
    }


def make_widget(name: str = "w", **spec: Any) -> Object:
    """Return an object of the definition of `make_crd`."""
    return {
        "apiVersion": "t.muster.dev/v1",
        "kind": "Widget",
        "metadata": {"name": name},
        "spec": spec,
    }
