"""Which topology levels a cluster has, and which nodes lack some."""

from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cli.doctor.findings import Finding, Severity
from cli.doctor.hyper_nodes import Tiers
from cli.doctor.topology_levels import SOURCES, TopologyLevels, sources_of

REGION, ZONE = SOURCES[0].keys
BLOCK, SUBBLOCK, HOST = SOURCES[1].keys
KEYS = ("example.com/hall", "example.com/rack")


def examined(*nodes: Mapping[str, str]) -> list[Finding]:
    levels = TopologyLevels()
    for at, labels in enumerate(nodes):
        levels.see({"metadata": {"name": f"n{at}", "labels": labels}})
    return list(levels.findings())


def test_each_source_is_named_with_its_levels_from_the_widest() -> None:
    found = examined(
        *({REGION: "r", ZONE: f"z{at % 2}", BLOCK: "b", SUBBLOCK: f"s{at}"} for at in range(4)),
        {"other": "label"},
    )

    start = "topology by labels of {}, on 4 of 5 nodes, the widest level first: "
    assert {one.severity for one in found} == {Severity.INFO}
    assert [one.problem for one in found] == [
        start.format("Kubernetes") + f"{REGION} (1 domain), {ZONE} (2 domains)",
        start.format("GKE") + f"{BLOCK} (1 domain), {SUBBLOCK} (4 domains)",
    ]


def test_a_level_that_no_node_has_is_no_level() -> None:
    (one,) = examined({ZONE: "z"}, {ZONE: "z"})

    assert REGION not in one.problem


@pytest.mark.parametrize(
    ("lacking", "said"),
    [(1, "1 node (n2) with labels of GKE lacks"), (3, "3 nodes (n2 and 2 more) with labels of")],
)
def test_nodes_that_lack_a_level_are_a_warning(lacking: int, said: str) -> None:
    complete = {BLOCK: "b", SUBBLOCK: "s", HOST: "h"}
    found = examined(complete, complete, *({BLOCK: "b", HOST: "h"} for _ in range(lacking)))

    (warning,) = [one for one in found if one.severity is Severity.WARNING]
    assert str(warning.about) == "Node n2"
    assert warning.problem.startswith(said)
    assert SUBBLOCK in warning.problem


def test_types_of_nodes_with_fewer_levels_are_no_warning() -> None:
    found = examined({BLOCK: "b", SUBBLOCK: "s", HOST: "h"}, {BLOCK: "b", SUBBLOCK: "s"})

    assert {one.severity for one in found} == {Severity.INFO}
    assert any(HOST in one.problem and "n1" in one.problem for one in found)


def test_a_narrow_domain_in_two_wide_ones_is_named_with_both() -> None:
    found = examined({BLOCK: "b0", SUBBLOCK: "s"}, {BLOCK: "b1", SUBBLOCK: "s"})

    (_, note) = found
    assert note.problem == (
        f"{SUBBLOCK}=s is in {BLOCK}=b0 and in {BLOCK}=b1: a group whose topology is {SUBBLOCK}"
        " may be spread over both"
    )
    # Domains are counted with what is above them.
    assert f"{SUBBLOCK} (2 domains)" in found[0].problem


@pytest.mark.parametrize("labels", [None, [], {ZONE: None}, {ZONE: 1}, {ZONE: ""}, "labels"])
def test_nodes_of_any_form_do_not_end_the_check(labels: object) -> None:
    levels = TopologyLevels()
    levels.see({"metadata": {"name": "n", "labels": labels}})
    levels.see({})

    assert list(levels.findings()) == []


@given(st.lists(st.dictionaries(st.sampled_from((REGION, ZONE, BLOCK)), st.text(max_size=2))))
def test_findings_are_few_however_the_nodes_are_labelled(nodes: list[dict[str, str]]) -> None:
    assert len(examined(*nodes)) < 120


def test_the_page_names_each_label() -> None:
    page = Path("docs/topology.md").read_text()

    assert [key for source in SOURCES for key in source.keys if f"`{key}`" not in page] == []


def topology(name: str, *keys: str) -> dict[str, object]:
    return {"metadata": {"name": name}, "spec": {"levels": [{"nodeLabel": key} for key in keys]}}


def test_the_levels_of_kueues_topologies_are_levels() -> None:
    own = topology("own", "example.com/hall", "example.com/rack", "kubernetes.io/hostname")
    sources = list(sources_of([own, topology("gke", *SOURCES[1].keys), topology("same", *KEYS)]))
    assert [(each.name, each.keys) for each in sources] == [("Kueue's Topology own", KEYS)]

    levels = TopologyLevels(sources)
    for at in range(4):
        labels = {KEYS[0]: "h", KEYS[1]: f"r{at // 2}"}
        levels.see({"metadata": {"name": f"n{at}", "labels": labels}})
    (one,) = levels.findings()
    assert one.problem == (
        "topology by labels of Kueue's Topology own, on 4 of 4 nodes, the widest level first:"
        " example.com/hall (1 domain), example.com/rack (2 domains)"
    )


@pytest.mark.parametrize(
    "wrong",
    [{}, {"spec": None}, {"spec": {"levels": 7}}, {"spec": {"levels": [None, {"nodeLabel": 3}]}}],
)
def test_a_topology_of_any_structure_is_read(wrong: dict[str, object]) -> None:
    assert list(sources_of([wrong])) == []


def test_a_node_whose_labels_differ_from_hyper_nodes_is_named() -> None:
    member = {"type": "Node", "selector": {"regexMatch": {"pattern": "^n"}}}
    tiers = Tiers([{"metadata": {"name": "s0"}, "spec": {"tier": 1, "members": [member]}}])
    for name, labels in (("n0", {"topology.muster.dev/tier-1": "s0"}), ("n1", {})):
        tiers.see({"metadata": {"name": name, "labels": labels}})

    (found,) = tiers.findings()
    assert found.severity is Severity.WARNING
    assert found.problem.endswith("Muster reads labels of nodes, and those of 1 node (n1) differ")
    assert "muster label-nodes" in found.action
