"""A dry run shows which fields of native groups the API server keeps."""

from typing import Any

import pytest

from api.constants import NATIVE_POD_GROUP
from kube.base.errors import Forbidden, KubeError
from webhooks.cache.kept_fields import KeptFields

Json = dict[str, Any]


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


async def test_what_comes_back_is_kept() -> None:
    server = Server({"schedulingPolicy"})
    kept = KeptFields(server, "muster-system")  # type: ignore[arg-type]
    assert kept.fields == frozenset()

    await kept.probe()
    assert kept.fields == {"schedulingPolicy"}
    server.keeps.add("schedulingConstraints")
    await kept.probe()

    assert kept.fields == {"schedulingPolicy", "schedulingConstraints"}
    assert {it["metadata"]["namespace"] for it in server.asked} == {"muster-system"}


async def test_a_missing_right_is_logged_once(capsys: pytest.CaptureFixture[str]) -> None:
    server = Server({"schedulingConstraints"})
    kept = KeptFields(server, "muster-system")  # type: ignore[arg-type]
    await kept.probe()
    server.fault = Forbidden(403, "Forbidden", "cannot create podgroups.scheduling.k8s.io")
    for _ in range(2):
        await kept.probe()

    assert kept.fields == frozenset()
    assert capsys.readouterr().out.count("cannot create podgroups.scheduling.k8s.io") == 1
