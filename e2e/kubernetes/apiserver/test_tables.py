"""Tables, as printed by `kubectl get`."""

import pytest

from e2e.harness.support.rest import Rest
from e2e.kubernetes.apiserver.crds import definition, installed, widget
from e2e.kubernetes.apiserver.objects import Namespace, job, pod

TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"


async def test_pods_as_a_table(rest: Rest, ns: Namespace) -> None:
    await rest.post(ns.pods(), pod("a"))

    table = (await rest.get(ns.pods(), accept=TABLE)).expect(200)

    assert (table["kind"], table["apiVersion"]) == ("Table", "meta.k8s.io/v1")
    names = [column["name"] for column in table["columnDefinitions"]]
    assert names[:5] == ["Name", "Ready", "Status", "Restarts", "Age"]
    row = table["rows"][0]
    assert row["cells"][:4] == ["a", "0/1", "Pending", "0"]
    assert row["object"]["kind"] == "PartialObjectMetadata"
    assert row["object"]["metadata"]["name"] == "a"


async def test_jobs_as_a_table(rest: Rest, ns: Namespace) -> None:
    await rest.post(ns.jobs(), job("a", spec={"completions": 3}))

    table = (await rest.get(ns.jobs(), accept=TABLE)).expect(200)

    cells = dict(
        zip(
            (column["name"] for column in table["columnDefinitions"]),
            table["rows"][0]["cells"],
            strict=True,
        )
    )
    assert cells["Name"] == "a"
    assert cells["Completions"] == "0/3"


async def test_one_object_as_a_table(rest: Rest, ns: Namespace) -> None:
    await rest.post(ns.pods(), pod("a"))

    table = (await rest.get(ns.pods("a"), accept=TABLE)).expect(200)

    assert len(table["rows"]) == 1


@pytest.mark.long
async def test_the_columns_of_a_custom_kind(rest: Rest, ns: Namespace) -> None:
    group = f"{ns.name}.example.com"
    async with installed(rest, definition(group)):
        path = ns.path(f"{group}/v1", "widgets")
        await rest.post(path, widget(group, "a"))
        table = (await rest.get(path, accept=TABLE)).expect(200)

    columns = [(column["name"], column["priority"]) for column in table["columnDefinitions"]]
    assert columns == [("Name", 0), ("Size", 0), ("Ready", 1)]
    assert table["rows"][0]["cells"] == ["a", 3, None]


async def test_metadata_alone(rest: Rest, ns: Namespace) -> None:
    await rest.post(ns.pods(), pod("a", labels={"x": "y"}))
    accept = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"

    listed = (await rest.get(ns.pods(), accept=accept)).expect(200)

    assert listed["kind"] == "PartialObjectMetadataList"
    assert listed["items"][0]["metadata"]["labels"] == {"x": "y"}
    assert "spec" not in listed["items"][0]
