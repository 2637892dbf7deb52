"""Claims, templates, classes and slices: accepted, stored and rejected, with exact messages."""

import secrets
from collections.abc import AsyncIterator

import pytest

from e2e.harness.support.rest import Rest
from e2e.kubernetes.apiserver.devices.cases import CASES
from e2e.kubernetes.apiserver.devices.player import Player, recorded, write
from e2e.kubernetes.apiserver.objects import Namespace

LABEL = "resource.kubernetes.io/admin-access"


@pytest.fixture
async def player(rest: Rest, ns: Namespace) -> AsyncIterator[Player]:
    labelled = {value: Namespace(f"{ns.name}-{value}") for value in ("true", "false")}
    for value, one in labelled.items():
        body = {"metadata": {"name": one.name, "labels": {LABEL: value}}}
        (await rest.post("/api/v1/namespaces", body)).expect(201)
    yield Player(rest, ns, labelled)
    for one in labelled.values():
        await rest.delete(f"/api/v1/namespaces/{one.name}")


@pytest.mark.since(
    "1.36", "binding conditions, shared capacity, partitions and taints are on since 1.36"
)
@pytest.mark.until(
    "1.37", "1.37 words 26 of these refusals differently; the embedded server answers as 1.36"
)
async def test_every_case_is_answered_as_kube_apiserver_does(
    player: Player, server_kind: str, record: bool
) -> None:
    prefix = secrets.token_hex(3)
    answers = {
        case.id: await player.play(case, f"{prefix}-{number}") for number, case in enumerate(CASES)
    }
    if record and server_kind == "real":
        write(answers)

    wanted = recorded()
    assert list(answers) == list(wanted)
    assert {id_: one for id_, one in answers.items() if one != wanted[id_]} == {}
