"""A dry run shows which fields of native groups the API server keeps."""

import asyncio
from typing import Any

import pytest

from api.constants import NATIVE_POD_GROUP
from kube.base.errors import Forbidden, KubeError, ServerError
from tests.support.clock import FakeClock
from webhooks.cache.kept_fields import KeptFields

Json = dict[str, Any]
ERROR = ServerError(500, "InternalError", "etcd")


class Server:
    """An API server that keeps only some fields, or fails."""

    def __init__(self, keeps: set[str], fault: KubeError | None = None) -> None:
        self.keeps, self.fault = keeps, fault
        self.asked: list[Json] = []

    async def create(self, kind: Any, obj: Json, *, dry_run: bool = False) -> Json:
        assert kind == NATIVE_POD_GROUP
        assert dry_run
        self.asked.append(obj)
        if self.fault is not None:
            raise self.fault
        spec = {key: value for key, value in obj["spec"].items() if key in self.keeps}
        return obj | {"spec": spec}


def kept_by(server: Server, clock: FakeClock | None = None) -> KeptFields:
    return KeptFields(server, "muster-system", clock or FakeClock())  # type: ignore[arg-type]


async def test_what_comes_back_is_kept() -> None:
    server = Server({"schedulingPolicy"})
    kept = kept_by(server)
    assert kept.fields == frozenset()

    await kept.probe()
    assert kept.fields == {"schedulingPolicy"}
    server.keeps.add("schedulingConstraints")
    await kept.probe()

    assert kept.fields == {"schedulingPolicy", "schedulingConstraints"}
    assert {it["metadata"]["namespace"] for it in server.asked} == {"muster-system"}


async def test_an_error_that_passes_changes_nothing() -> None:
    """The first result is waited for: no owner may be admitted by a guess."""
    clock, server = FakeClock(), Server({"schedulingConstraints"}, ERROR)
    kept = kept_by(server, clock)
    first = asyncio.ensure_future(kept.probe())
    await clock.advance(3)
    assert not first.done()
    server.fault = None
    await clock.advance(1)
    await first
    server.fault = ERROR
    await kept.probe()

    assert kept.fields == {"schedulingConstraints"}


async def test_a_missing_right_is_logged_once(capsys: pytest.CaptureFixture[str]) -> None:
    clock, server = FakeClock(), Server({"schedulingConstraints"})
    kept = kept_by(server, clock)
    await kept.probe()
    server.fault = Forbidden(403, "Forbidden", "cannot create podgroups.scheduling.k8s.io")
    for _ in range(2):
        probe = asyncio.ensure_future(kept.probe())
        await clock.advance(1)
        assert not probe.done()
        await clock.advance(10)
        await probe

    assert kept.fields == frozenset()
    assert capsys.readouterr().out.count("cannot create podgroups.scheduling.k8s.io") == 1
