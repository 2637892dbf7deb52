"""The published OpenAPI documents about the fields of kinds."""

from typing import Any

import pytest

from e2e.harness.support.rest import Rest
from localcluster.definitions import builtin, generate
from localcluster.http.version import VERSION


async def test_the_embedded_server_knows_the_fields_that_this_release_publishes(
    rest: Rest, server_kind: str
) -> None:
    if server_kind == "local":
        pytest.skip("about what kube-apiserver publishes: run with --cluster=real")
    version = (await rest.get("/version")).expect(200)
    if version["minor"] != VERSION["minor"]:
        pytest.skip(f"the embedded server is of minor version {VERSION['minor']}")

    schemas: dict[str, Any] = {}
    for group, name in {(info.group, info.version) for info in builtin.DESCRIBED}:
        where = f"apis/{group}/{name}" if group else f"api/{name}"
        document = (await rest.get(f"/openapi/v3/{where}")).expect(200)
        schemas |= document["components"]["schemas"]

    assert list(generate.lines(schemas)) == builtin.FILE.read_text("utf-8").splitlines()
