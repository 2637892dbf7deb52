"""A bare Api, and the objects for its tests."""

from typing import Any

from localcluster.base.clock import timestamp
from localcluster.base.hooks import Part
from localcluster.base.resources import NAMESPACES
from localcluster.controllers.garbage_collector import GarbageCollector
from localcluster.controllers.namespaces import NamespaceController
from localcluster.registry.api import Api
from localcluster.testing.clock import FakeClock

Object = dict[str, Any]


async def make_api(**options: Any) -> Api:
    """Return an Api with the namespace `default` and a clock that does not advance."""
    api = Api(clock=FakeClock(), **options)
    await api.create(NAMESPACES, {"metadata": {"name": "default"}})
    return api


def config_map(name: str = "a", data: Object | None = None, **meta: Any) -> Object:
    return {"metadata": {"name": name, **meta}, "data": {"k": "v"} if data is None else data}


def pod(name: str = "p", *, spec: Object | None = None, **meta: Any) -> Object:
    containers = [{"name": "c", "image": "x:1"}]
    return {"metadata": {"name": name, **meta}, "spec": {"containers": containers, **(spec or {})}}


def job(name: str = "j", **spec: Any) -> Object:
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "x:1"}]}}
    return {"metadata": {"name": name}, "spec": {"template": template, **spec}}


def binding(name: str = "p", node: str = "n1", uid: str = "") -> Object:
    meta = {"name": name, **({"uid": uid} if uid else {})}
    return {"metadata": meta, "target": {"kind": "Node", "name": node}}


def owner(obj: Object, **more: Any) -> Object:
    meta = obj["metadata"]
    return {
        "apiVersion": obj["apiVersion"],
        "kind": obj["kind"],
        "name": meta["name"],
        "uid": meta["uid"],
        **more,
    }


class Running:
    """The garbage collector and the namespace controller, running on an Api."""

    def __init__(self, api: Api) -> None:
        self._parts: list[Part] = [GarbageCollector(api), NamespaceController(api)]

    async def __aenter__(self) -> None:
        for part in self._parts:
            await part.start()

    async def __aexit__(self, *_: object) -> None:
        for part in self._parts:
            await part.stop()


def now_of(api: Api) -> str:
    return timestamp(api.clock.now())
