"""The OpenAPI document of the console: it describes each route, and each response matches it."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from console.serving.api import OPENAPI
from tests.console.browser import Browser, Site, browser, site
from tests.console.cluster_builder import BLOCK, RACK, Builder

WORKLOAD = "/api/workloads/{namespace}/{kind}/{name}"
REQUESTS = {
    "/api/session": "/api/session",
    "/api/map": "/api/map?resource=memory",
    "/api/map/largest": "/api/map/largest?shape=cpu=1&key=example.com/rack",
    "/api/map/pods": "/api/map/pods?workload=ns/PodGroup/g",
    "/api/queue": "/api/queue?priorityMin=0&limit=1",
    "/api/workloads": "/api/workloads?search=g&status=waiting",
    WORKLOAD: "/api/workloads/ns/PodGroup/g",
    f"{WORKLOAD}/tree": "/api/workloads/ns/PodGroup/g/tree",
    f"{WORKLOAD}/why": "/api/workloads/ns/PodGroup/g/why?node=n-1-1-1",
}


@pytest.fixture
async def served() -> AsyncIterator[Site]:
    cluster = Builder()
    cluster.racks()
    cluster.use_keys(BLOCK, RACK)
    cluster.gang("g", 2)
    cluster.pods("g", 2, cpu=50)
    async with site(cluster) as made:
        yield made


@pytest.fixture
async def page(served: Site) -> AsyncIterator[Browser]:
    async with browser(served) as made:
        yield made


def validator(document: dict[str, Any], path: str, status: str) -> Draft202012Validator:
    content = document["paths"][path]["get"]["responses"][status]["content"]
    schema = content["application/json"]["schema"]
    return Draft202012Validator({**schema, "components": document["components"]})


@pytest.mark.parametrize("path", REQUESTS)
async def test_a_response_matches_its_schema(page: Browser, path: str) -> None:
    _, document = await page.get(OPENAPI)

    status, answer = await page.get(REQUESTS[path])

    assert status == 200, answer
    schema = validator(document, path, "200")
    schema.validate(answer)
    broken = [*answer, 5] if isinstance(answer, list) else {}
    assert not schema.is_valid(broken)


@pytest.mark.parametrize(
    "asked", ["/api/queue?limit=x", "/api/map?resource=none", f"{WORKLOAD}/why?node=x"]
)
async def test_an_error_matches_its_schema(page: Browser, asked: str) -> None:
    _, document = await page.get(OPENAPI)

    status, answer = await page.get(asked)

    assert status in {400, 404}
    validator(document, "/api/queue", "default").validate(answer)


async def test_every_route_is_documented_with_its_parameters(page: Browser) -> None:
    _, document = await page.get(OPENAPI)

    routes = {(path, method) for path, item in document["paths"].items() for method in item}
    changes = {(f"/api/{path}", "post") for path in ("what-if", "fit", "login", "logout")}
    streams = {("/api/events", "get"), ("/api/history", "get")}
    assert routes == {(path, "get") for path in REQUESTS} | streams | changes
    assert all(
        item["summary"] and item["description"]
        for methods in document["paths"].values()
        for item in methods.values()
    )
    queue = document["paths"]["/api/queue"]["get"]["parameters"]
    assert {each["name"]: each["schema"].get("type") for each in queue} == {
        "namespace": "string", "priorityMin": None, "reason": "string", "limit": "integer",
        "after": "string",
    }  # fmt: skip
    listed = document["paths"]["/api/workloads"]["get"]["parameters"]
    assert {each["name"]: each["in"] for each in listed} == dict.fromkeys(
        ("search", "namespace", "kind", "node", "status", "limit", "after"), "query"
    )
    body = document["paths"]["/api/what-if"]["post"]["requestBody"]["content"]
    assert body["application/json"]["schema"] == {"$ref": "#/components/schemas/WhatIfRequest"}
