"""Owners whose gang-mode has no effect, among those without one."""

from pathlib import Path
from typing import Any

import pytest

from api.constants import ANNOTATION_GANG_MODE, LEADER_WORKER_SET
from cli.doctor.examination import Examination, Options
from cli.doctor.findings import Limited
from cli.doctor.keys import ACTION, check_owner
from kube.client.client import Client
from kube.client.resources import LEADER_WORKER_SETS
from tests.support.api_server import Reply, ScriptedServer, Seen, failure
from tests.support.lws import make_lws

Json = dict[str, Any]
GANG = make_lws().replicas(2, 4).asks(gang_mode="Gang")


def findings(*sets: Json) -> list[Any]:
    found = Limited("annotations")
    for one in sets:
        check_owner(LEADER_WORKER_SET.kind, one, found)
    return list(found.findings())


@pytest.mark.parametrize(
    ("obj", "count"),
    [
        pytest.param(GANG.build(), 1, id="made without marks"),
        pytest.param(GANG.admitted(), 0, id="marked"),
        pytest.param(make_lws().build(), 0, id="asks for nothing"),
        pytest.param(make_lws().asks(gang_mode="Off").build(), 0, id="off"),
        pytest.param(make_lws().asks(min_cuont="2").build(), 1, id="a typing error"),
        pytest.param({"metadata": [], "spec": 7}, 0, id="of any form"),
    ],
)
def test_sets(obj: Json, count: int) -> None:
    assert len(findings(obj)) == count


def test_it_says_what_to_do() -> None:
    (one,) = findings(GANG.build())

    assert str(one.about) == "LeaderWorkerSet default/serve"
    assert one.problem.startswith(f"metadata.annotations[{ANNOTATION_GANG_MODE}]: has no effect")
    assert one.action == ACTION


def test_one_namespace_leaves_room_for_others() -> None:
    other = GANG.build()
    other["metadata"]["namespace"] = "quiet"

    found = findings(*[GANG.build()] * 1000, other)

    assert len(found) == 7
    assert found[-2].about.namespace == "quiet"


async def test_the_examination_reads_their_templates(tmp_path: Path) -> None:
    async def reply(seen: Seen) -> Reply:
        if seen.path == "/version":
            return Reply({"major": "1", "minor": "36", "gitVersion": "v1.36.3"})
        if seen.path == LEADER_WORKER_SETS.path():
            return Reply({"metadata": {}, "items": [GANG.build(), GANG.admitted()]})
        return failure(404, "NotFound", "no")

    async with ScriptedServer() as server:
        server.handler = reply
        async with await Client.connect(server.kubeconfig(tmp_path)) as client:
            found = await Examination(client, Options(renewals=0)).run()

    assert len([one for one in found if one.action == ACTION]) == 1
