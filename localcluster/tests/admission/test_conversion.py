"""Conversion of stored objects: the number of webhook calls, and the effect of failures."""

import json
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from localcluster.base import resources
from localcluster.base.errors import StatusError
from localcluster.base.resources import ResourceInfo
from localcluster.cluster import LocalCluster
from localcluster.tests.admission.hook_server import HookServer, make_certificate
from localcluster.tests.api_server import ApiServer, make_crd, make_widget, until
from localcluster.tests.test_cluster import session

Object = dict[str, Any]
V2 = "t.muster.dev/v2"


@dataclass
class Scene:
    """A kind stored in v1, which a webhook converts to v2."""

    apiserver: ApiServer
    hooks: HookServer
    v1: ResourceInfo
    v2: ResourceInfo

    @property
    def asked(self) -> list[list[str]]:
        """The names of the objects of each review."""
        return [
            [obj["metadata"]["name"] for obj in request["objects"]]
            for request in self.hooks.requests("/convert")
        ]

    def answer(self, make: Callable[[Object], Object]) -> None:
        """Respond to reviews with the result of `make`."""
        self.hooks.answers["/convert"] = lambda request: web.json_response(
            {"kind": "ConversionReview", "response": make(request)}
        )

    async def failure(self) -> str:
        stored = await self.apiserver.api.create(self.v1, make_widget("w"), "default")
        with pytest.raises(StatusError) as found:
            await self.apiserver.api.converter.view(self.v2, stored)
        assert (found.value.code, found.value.reason) == (500, "")
        words = "conversion webhook for t.muster.dev/v1, Kind=Widget "
        assert found.value.message.startswith(words)
        return found.value.message.removeprefix(words)


def renamed(request: Object) -> Object:
    objects = [{**obj, "apiVersion": V2} for obj in request["objects"]]
    return {
        "uid": request["uid"],
        "convertedObjects": objects,
        "result": {"status": "Success"},
    }


@pytest.fixture
async def scene(apiserver: ApiServer, tmp_path: Path) -> AsyncIterator[Scene]:
    hooks = HookServer(make_certificate(tmp_path, "127.0.0.1"))
    await hooks.start()
    client = {"url": f"https://127.0.0.1:{hooks.port}/convert", "caBundle": hooks.bundle}
    webhook = {"clientConfig": client, "conversionReviewVersions": ["v9", "v1beta1", "v1"]}
    crd = make_crd(conversion={"strategy": "Webhook", "webhook": webhook})
    (first,) = crd["spec"]["versions"]
    crd["spec"]["versions"].append({**first, "name": "v2", "storage": False})
    v1 = await apiserver.define(crd)
    v2 = apiserver.registry.lookup("t.muster.dev", "v2", "widgets")
    assert v2 is not None
    made = Scene(apiserver, hooks, v1, v2)
    made.answer(renamed)
    yield made
    await hooks.stop()


async def test_a_list_is_one_question(scene: Scene) -> None:
    api = scene.apiserver.api
    for name in ("a", "b"):
        await api.create(scene.v1, make_widget(name), "default")

    seen = await api.converter.views(scene.v2, api.list(scene.v1).items)

    assert [one.obj["apiVersion"] for one in seen] == [V2, V2]
    assert scene.asked == [["a", "b"]]
    (review,) = [review for _, review in scene.hooks.seen]
    assert review["apiVersion"] == "apiextensions.k8s.io/v1beta1"


async def test_an_answer_is_remembered_until_a_definition_changes(scene: Scene) -> None:
    api = scene.apiserver.api
    stored = await api.create(scene.v1, make_widget("a"), "default")
    first = await api.converter.view(scene.v2, stored)
    assert await api.converter.view(scene.v2, stored) is first
    assert len(scene.asked) == 1

    note = {"metadata": {"annotations": {"x": "y"}}}
    await api.patch(resources.CRDS, "widgets.t.muster.dev", note)

    assert await api.converter.view(scene.v2, stored) is not first
    assert len(scene.asked) == 2
    assert len(stored.views) == 1


async def test_nobody_asks_about_objects_in_their_own_version(scene: Scene) -> None:
    api = scene.apiserver.api
    stored = await api.create(scene.v1, make_widget("a"), "default")

    assert await api.converter.view(scene.v1, stored) is stored
    assert scene.asked == []


@pytest.mark.parametrize(
    ("change", "said"),
    [
        pytest.param({"uid": "x"}, "failed: expected response.uid=", id="another uid"),
        pytest.param({"convertedObjects": []}, "returned 0 objects, expected 1", id="too few"),
        pytest.param(
            {"result": {"status": "Failed"}},
            "failed: response.result.status was 'Failed', not 'Success'",
            id="failure without a word",
        ),
        pytest.param(
            {"result": {"status": "Failed", "message": "no"}}, "failed: no", id="a failure"
        ),
        pytest.param({"result": None}, "failed: response.result.status was ''", id="no result"),
    ],
)
async def test_an_answer_that_is_no_conversion_is_refused(
    scene: Scene, change: Object, said: str
) -> None:
    scene.answer(lambda request: {**renamed(request), **change})

    assert (await scene.failure()).startswith(said)


@pytest.mark.parametrize(
    ("body", "said"),
    [("{}", "failed: no response provided"), ("[]", "failed: no response"), ("no", "failed: ")],
)
async def test_an_answer_that_is_no_review_is_refused(scene: Scene, body: str, said: str) -> None:
    scene.hooks.answers["/convert"] = lambda _: web.Response(text=body)

    assert (await scene.failure()).startswith(said)


async def test_a_webhook_that_is_away_is_said(scene: Scene) -> None:
    await scene.hooks.stop()

    said = await scene.failure()

    assert "connection refused" in said
    assert f'Post "https://127.0.0.1:{scene.hooks.port}/convert?timeout=30s"' in said


async def test_a_watch_that_cannot_be_converted_ends_with_the_reason(tmp_path: Path) -> None:
    async with LocalCluster(jobset=False) as cluster, session(cluster) as http:
        webhook = {
            "clientConfig": {"url": "https://127.0.0.1:1/"},
            "conversionReviewVersions": ["v1"],
        }
        crd = make_crd(conversion={"strategy": "Webhook", "webhook": webhook})
        (first,) = crd["spec"]["versions"]
        crd["spec"]["versions"].append({**first, "name": "v2", "storage": False})
        await cluster.api.create(resources.CRDS, crd)
        name = ("t.muster.dev", "v1", "widgets")
        await until(lambda: cluster.api.registry.lookup(*name) is not None)
        info = cluster.api.registry.lookup(*name)
        assert info is not None
        await cluster.api.create(info, make_widget("w"), "default")

        url = "/apis/t.muster.dev/v2/widgets?watch=1"
        async with http.get(url) as answer:
            (line,) = [json.loads(line) async for line in answer.content]

    assert (line["type"], line["object"]["code"]) == ("ERROR", 500)
    assert line["object"]["message"].startswith("conversion webhook for t.muster.dev/v1")
