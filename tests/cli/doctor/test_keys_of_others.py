"""Annotations on objects of other kinds, which Muster ignores."""

from pathlib import Path
from typing import Any

import pytest

from api.constants import ANNOTATION_GANG_MODE
from api.integration.unread_keys import BY_TEMPLATES
from cli.doctor.examination import Examination, Options
from cli.doctor.findings import Limited
from cli.doctor.keys import OF_OTHERS, check_others
from kube.client.client import Client
from tests.support.api_server import Reply, ScriptedServer, Seen, failure

Json = dict[str, Any]
ASKS = {"annotations": {ANNOTATION_GANG_MODE: "Gang"}}
MADE = {"ownerReferences": [{"kind": "Deployment", "name": "d", "uid": "u", "controller": True}]}


def meta(name: str, **more: Any) -> Json:
    return {"metadata": {"name": name, "namespace": "ns"} | more}


@pytest.mark.parametrize(
    ("obj", "count"),
    [
        (meta("x", **ASKS), 1),
        (meta("x"), 0),
        (meta("x", **ASKS, **MADE), 0),
        (meta("x", **ASKS, ownerReferences=[{"kind": "Thing"}, 7, None]), 1),
        (meta("x", **ASKS, ownerReferences=7), 1),
        ({"metadata": 7}, 0),
    ],
)
def test_what_something_else_made_repeats_nothing(obj: Json, count: int) -> None:
    found = Limited("annotations")

    check_others("SparkApplication", obj, found)

    assert len(found.found) == count


def test_every_kind_whose_templates_ask_is_read() -> None:
    assert {it.kind for it in OF_OTHERS} == BY_TEMPLATES | {"DaemonSet", "ReplicaSet"}


async def test_the_examination_lists_each_kind_that_is_served(tmp_path: Path) -> None:
    async def reply(seen: Seen) -> Reply:
        if seen.path == "/version":
            return Reply({"major": "1", "minor": "36", "gitVersion": "v1.36.3"})
        if seen.path in {
            it.path() for it in OF_OTHERS if it.group in {"sparkoperator.k8s.io", "apps"}
        }:
            return Reply({"metadata": {}, "items": [meta("x", **ASKS)]})
        return failure(404, "NotFound", "no")

    async with ScriptedServer() as server:
        server.handler = reply
        async with await Client.connect(server.kubeconfig(tmp_path)) as client:
            found = await Examination(client, Options(renewals=0)).run()

    about = {it.about.kind for it in found if it.check == "annotations"}
    assert about == {"SparkApplication", "ScheduledSparkApplication", "DaemonSet", "ReplicaSet"}
