"""The webhook's account may write caBundle where API servers read it, and no other field there."""

import base64
from collections.abc import AsyncIterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from e2e.flows.admission.webhook.replicas import CONFIGURATIONS, NAMESPACE, install, uninstall
from e2e.harness.support import accounts, definitions, kubeconfig, pki
from e2e.harness.support.rest import JSON_PATCH, Object, Rest
from e2e.harness.support.waiting import eventually

CONVERTED = f"{definitions.PATH}/workloads.scheduling.muster.dev"
CONFIG = "/spec/conversion/webhook/clientConfig"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def confined(
    admin: Path, server_kind: str, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Path]:
    """The kubeconfig of the webhook's account, once the policies are in force."""
    if server_kind != "real":
        pytest.skip("the embedded server knows no ValidatingAdmissionPolicy")
    async with Rest.open(admin) as api:
        await install(api)
        token = await accounts.token(api, NAMESPACE, "muster-webhook")
        file = tmp_path_factory.mktemp("webhook") / "kubeconfig"
        async with Rest.open(kubeconfig.derive(admin, file, token)) as rest:
            for path in (*CONFIGURATIONS, CONVERTED):
                await eventually(partial(_confined, rest, path), f"{path} confined", 60)
        yield file
        await uninstall(api)


@pytest.fixture
async def webhook(confined: Path) -> AsyncIterator[Rest]:
    """Raw HTTP as the webhook's account."""
    async with Rest.open(confined) as rest:
        yield rest


async def _confined(rest: Rest, path: str) -> bool:
    """Return True if API servers enforce the new policy, which takes a moment."""
    answer = await rest.patch(
        path,
        [{"op": "add", "path": "/metadata/annotations", "value": {"a": "b"}}],
        JSON_PATCH,
        params={"dryRun": "All"},
    )
    return answer.status == 422 and "nothing but caBundle" in answer.text


async def test_the_ca_can_be_written(webhook: Rest, api: Rest, tmp_path: Path) -> None:
    ca = base64.b64encode(pki.issue(tmp_path).ca_pem).decode()
    for path in CONFIGURATIONS:
        ops = [
            {"op": "add", "path": f"/webhooks/{at}/clientConfig/caBundle", "value": ca}
            for at in range(len((await api.get(path)).ok()["webhooks"]))
        ]
        written = (await webhook.patch(path, ops, JSON_PATCH)).ok()
        assert {one["clientConfig"]["caBundle"] for one in written["webhooks"]} == {ca}
    ops = [{"op": "add", "path": f"{CONFIG}/caBundle", "value": ca}]

    definition = (await webhook.patch(CONVERTED, ops, JSON_PATCH)).ok()

    assert definition["spec"]["conversion"]["webhook"]["clientConfig"]["caBundle"] == ca


def add(path: str, value: Any) -> list[Object]:
    return [{"op": "add", "path": path, "value": value}]


HOOK = "/webhooks/0"
ELSEWHERE = {"url": "https://attacker.example/"}
OTHER_SERVICE = {"name": "theirs", "namespace": "theirs", "path": "/", "port": 443}
EVERYTHING = [
    {
        "operations": ["*"],
        "apiGroups": ["*"],
        "apiVersions": ["*"],
        "resources": ["*"],
        "scope": "*",
    }
]


OF_A_CONFIGURATION: Mapping[str, list[Object]] = {
    "an address elsewhere": add(f"{HOOK}/clientConfig", ELSEWHERE),
    "another Service": add(f"{HOOK}/clientConfig/service", OTHER_SERVICE),
    "another path": add(f"{HOOK}/clientConfig/service/path", "/x"),
    "asked about everything": add(f"{HOOK}/rules", EVERYTHING),
    "asked about all pods": add(f"{HOOK}/matchConditions", []),
    "passed over when it is down": add(f"{HOOK}/failurePolicy", "Ignore"),
    "slower": add(f"{HOOK}/timeoutSeconds", 30),
    "blind": add(f"{HOOK}/namespaceSelector", {"matchLabels": {"a": "b"}}),
    "one webhook less": [{"op": "remove", "path": HOOK}],
    "no webhook at all": [{"op": "remove", "path": "/webhooks"}],
    "one webhook more": [
        {"op": "copy", "from": HOOK, "path": "/webhooks/1"},
        *add("/webhooks/1/name", "one.more.example"),
    ],
    "a finalizer": add("/metadata/finalizers", ["x.example/y"]),
    "a label": add("/metadata/labels/a", "b"),
}
OF_A_DEFINITION: Mapping[str, list[Object]] = {
    "an address elsewhere": add(CONFIG, ELSEWHERE),
    "another Service": add(f"{CONFIG}/service/namespace", "theirs"),
    "no conversion": add("/spec/conversion", {"strategy": "None"}),
    "the schema": add("/spec/versions/0/schema/openAPIV3Schema/description", "x"),
    "a short name": add("/spec/names/shortNames", ["po"]),
    "an annotation": add("/metadata/annotations", {"a": "b"}),
}


@pytest.mark.parametrize(
    ("path", "changes"),
    [
        pytest.param(CONFIGURATIONS[0], OF_A_CONFIGURATION, id="mutating", marks=pytest.mark.long),
        pytest.param(CONFIGURATIONS[1], OF_A_CONFIGURATION, id="validating"),
        pytest.param(CONVERTED, OF_A_DEFINITION, id="a definition"),
    ],
)
async def test_nothing_else_can_be_written(
    webhook: Rest, api: Rest, path: str, changes: Mapping[str, list[Object]]
) -> None:
    before = (await api.get(path)).ok()
    answers = {what: await webhook.patch(path, ops, JSON_PATCH) for what, ops in changes.items()}

    refused = {
        what: answer.status == 422 and "may change nothing but caBundle" in answer.text
        for what, answer in answers.items()
    }
    assert refused == dict.fromkeys(changes, True), answers
    assert (await api.get(path)).ok()["metadata"]["generation"] == before["metadata"]["generation"]


async def test_an_administrator_is_not_confined(webhook: Rest, api: Rest) -> None:
    del webhook
    ops = add(f"{HOOK}/timeoutSeconds", 4)

    for path in CONFIGURATIONS:
        assert (await api.patch(path, ops, JSON_PATCH)).ok()["webhooks"][0]["timeoutSeconds"] == 4
