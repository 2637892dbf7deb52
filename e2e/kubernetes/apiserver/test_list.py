"""Lists: pages, label selectors, field selectors."""

import pytest

from e2e.harness.support.rest import Rest
from e2e.kubernetes.apiserver.objects import Namespace, binding, config_map, pod

# A real cluster adds a ConfigMap of its own to each namespace.
OURS = {"labelSelector": "suite=list"}


async def _make(rest: Rest, ns: Namespace, count: int) -> None:
    for index in range(count):
        body = config_map(f"c-{index}", labels={"suite": "list"})
        (await rest.post(ns.config_maps(), body)).expect(201)


async def test_a_list_names_its_kind_and_version(rest: Rest, ns: Namespace) -> None:
    await _make(rest, ns, 2)

    listed = (await rest.get(ns.config_maps(), params=OURS)).expect(200)

    assert (listed["kind"], listed["apiVersion"]) == ("ConfigMapList", "v1")
    assert int(listed["metadata"]["resourceVersion"]) > 0
    assert [item["metadata"]["name"] for item in listed["items"]] == ["c-0", "c-1"]


async def test_an_empty_list_has_no_items(rest: Rest, ns: Namespace) -> None:
    assert (await rest.get(ns.jobs())).expect(200)["items"] == []


async def test_pages_follow_each_other_at_one_version(rest: Rest, ns: Namespace) -> None:
    await _make(rest, ns, 5)

    names: list[str] = []
    versions: set[str] = set()
    remaining: list[int | None] = []
    params = {"limit": "2", "fieldSelector": "metadata.name!=kube-root-ca.crt"}
    while True:
        page = (await rest.get(ns.config_maps(), params=params)).expect(200)
        names += [item["metadata"]["name"] for item in page["items"]]
        versions.add(page["metadata"]["resourceVersion"])
        remaining.append(page["metadata"].get("remainingItemCount"))
        if len(names) == 2:
            late = config_map("c-9", labels={"suite": "list"})
            (await rest.post(ns.config_maps(), late)).expect(201)
        if not page["metadata"].get("continue"):
            break
        params["continue"] = page["metadata"]["continue"]

    assert names == ["c-0", "c-1", "c-2", "c-3", "c-4"]
    assert len(versions) == 1
    assert remaining == [None, None, None]


async def test_the_number_of_items_left_is_told_without_selectors(
    rest: Rest, ns: Namespace
) -> None:
    for index in range(3):
        await rest.post(ns.pods(), pod(f"p-{index}"))

    page = (await rest.get(ns.pods(), params={"limit": "2"})).expect(200)

    assert page["metadata"]["remainingItemCount"] == 1


async def test_a_broken_continue_token_is_refused(rest: Rest, ns: Namespace) -> None:
    params = {"limit": "2", "continue": "nonsense"}

    status = (await rest.get(ns.config_maps(), params=params)).expect(400)

    assert status["reason"] == "BadRequest"


@pytest.mark.parametrize(
    ("selector", "want"),
    [
        pytest.param("tier=web", {"web", "both"}, id="equal"),
        pytest.param("tier==web", {"web", "both"}, id="equal, with two signs"),
        pytest.param("tier!=web", {"db", "none"}, id="not equal, which unset is"),
        pytest.param("tier in (web, db)", {"web", "db", "both"}, id="in a set"),
        pytest.param("tier notin (web)", {"db", "none"}, id="not in a set"),
        pytest.param("env", {"both"}, id="set at all"),
        pytest.param("!tier", {"none"}, id="not set"),
        pytest.param("tier=web,env=test", {"both"}, id="two requirements at once"),
        pytest.param("rank>3", {"db"}, id="greater than"),
        pytest.param("rank<3", {"web"}, id="less than"),
        pytest.param("tier=", set(), id="the empty value"),
    ],
)
async def test_label_selectors(rest: Rest, ns: Namespace, selector: str, want: set[str]) -> None:
    labels: dict[str, dict[str, str]] = {
        "web": {"tier": "web", "rank": "1"},
        "db": {"tier": "db", "rank": "9"},
        "both": {"tier": "web", "env": "test"},
        "none": {},
    }
    for name, own in labels.items():
        (await rest.post(ns.pods(), pod(name, labels=own))).expect(201)

    listed = (await rest.get(ns.pods(), params={"labelSelector": selector})).expect(200)

    assert {item["metadata"]["name"] for item in listed["items"]} == want


@pytest.mark.parametrize("selector", ["a in b", "=x", "a=b=c", "a in ()x", "bad key=x"])
async def test_a_label_selector_that_cannot_be_read_is_refused(
    rest: Rest, ns: Namespace, selector: str
) -> None:
    status = (await rest.get(ns.pods(), params={"labelSelector": selector})).expect(400)

    assert status["reason"] == "BadRequest"


async def test_field_selectors_of_pods(rest: Rest, ns: Namespace, node: str) -> None:
    for name in ("bound", "free"):
        await rest.post(ns.pods(), pod(name))
    await rest.post(f"{ns.pods('bound')}/binding", binding("bound", node))

    async def names(selector: str) -> set[str]:
        listed = (await rest.get(ns.pods(), params={"fieldSelector": selector})).expect(200)
        return {item["metadata"]["name"] for item in listed["items"]}

    assert await names("spec.nodeName=") == {"free"}
    assert await names(f"spec.nodeName={node}") == {"bound"}
    assert await names("metadata.name=free") == {"free"}
    assert await names("metadata.name!=free") == {"bound"}
    assert await names(f"metadata.namespace={ns.name},metadata.name=bound") == {"bound"}
    assert "free" in await names("status.phase=Pending")
    assert await names("spec.schedulerName=default-scheduler") == {"bound", "free"}
    assert await names("status.phase!=Pending,metadata.name=free") == set()


async def test_a_field_without_an_index_cannot_be_selected(rest: Rest, ns: Namespace) -> None:
    params = {"fieldSelector": "spec.priority=1"}

    status = (await rest.get(ns.pods(), params=params)).expect(400)

    assert status["reason"] == "BadRequest"


async def test_a_list_over_all_namespaces(rest: Rest, ns: Namespace) -> None:
    await rest.post(ns.config_maps(), config_map("here", labels={"only": ns.name}))

    listed = (
        await rest.get("/api/v1/configmaps", params={"labelSelector": f"only={ns.name}"})
    ).expect(200)

    assert [item["metadata"]["namespace"] for item in listed["items"]] == [ns.name]


async def test_a_list_not_older_than_a_version_holds_it(rest: Rest, ns: Namespace) -> None:
    created = (await rest.post(ns.config_maps(), config_map("fresh"))).ok()
    version = created["metadata"]["resourceVersion"]
    params = {"resourceVersion": version, "resourceVersionMatch": "NotOlderThan"}

    listed = (await rest.get(ns.config_maps(), params=params)).expect(200)

    assert "fresh" in {item["metadata"]["name"] for item in listed["items"]}
    assert int(listed["metadata"]["resourceVersion"]) >= int(version)


async def test_an_exact_version_shows_the_past(rest: Rest, ns: Namespace) -> None:
    created = (await rest.post(ns.config_maps(), config_map("a", {"k": "old"}))).ok()
    version = created["metadata"]["resourceVersion"]
    (await rest.patch(ns.config_maps("a"), {"data": {"k": "new"}})).ok()
    params = {"resourceVersion": version, "resourceVersionMatch": "Exact"}
    params["fieldSelector"] = "metadata.name=a"

    listed = (await rest.get(ns.config_maps(), params=params)).expect(200)

    assert [item["data"] for item in listed["items"]] == [{"k": "old"}]


async def test_a_collection_is_deleted_by_selector(rest: Rest, ns: Namespace) -> None:
    await _make(rest, ns, 2)
    (await rest.post(ns.config_maps(), config_map("kept"))).expect(201)

    (await rest.delete(ns.config_maps(), params=OURS)).expect(200)

    names = {item["metadata"]["name"] for item in (await rest.get(ns.config_maps())).ok()["items"]}
    assert names & {"c-0", "c-1", "kept"} == {"kept"}
