"""Labels of nodes from Volcano's HyperNodes."""

from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cli.commands import main
from cli.topology import hyper_nodes
from cli.topology.hyper_nodes import HYPER_NODES, labels_by
from cli.topology.label_nodes import apply, compare
from kube.base.errors import ConfigError
from kube.client.client import Client
from kube.client.patch import PatchBuilder, pointer
from kube.client.resources import CRDS, NODES
from localcluster.cluster import LocalCluster

Json = dict[str, Any]
TIER_1, TIER_2 = f"{hyper_nodes.PREFIX}1", f"{hyper_nodes.PREFIX}2"
NODES_OF_TEST = {f"n{at}": {"rack": f"r{at // 2}"} for at in range(4)}


def hyper_node(name: str, tier: Any, *members: Json) -> Json:
    return {
        "apiVersion": HYPER_NODES.api_version,
        "kind": HYPER_NODES.kind,
        "metadata": {"name": name},
        "spec": {"tier": tier, "members": list(members)},
    }


def exact(*names: str, kind: str = "Node") -> list[Json]:
    return [{"type": kind, "selector": {"exactMatch": {"name": name}}} for name in names]


def by_pattern(pattern: str, kind: str = "Node") -> Json:
    return {"type": kind, "selector": {"regexMatch": {"pattern": pattern}}}


def by_label(**labels: str) -> Json:
    return {"type": "Node", "selector": {"labelMatch": {"matchLabels": labels}}}


def wanted(*objects: Json) -> tuple[dict[str, dict[str, str]], Sequence[str]]:
    found = labels_by(objects, NODES_OF_TEST)
    return {node: dict(labels) for node, labels in found.wanted.items()}, found.problems


def test_nodes_of_parts_belong_to_the_wider_tier() -> None:
    labels, problems = wanted(
        hyper_node("s0", 1, *exact("n0", "n1")),
        hyper_node("s1", 1, by_label(rack="r1")),
        hyper_node("spine", 2, by_pattern("^s[0-9]$", "HyperNode")),
    )

    assert labels == {
        "n0": {TIER_1: "s0", TIER_2: "spine"},
        "n1": {TIER_1: "s0", TIER_2: "spine"},
        "n2": {TIER_1: "s1", TIER_2: "spine"},
        "n3": {TIER_1: "s1", TIER_2: "spine"},
    }
    assert problems == []
    assert labels_by([hyper_node("s0", 1, *exact("n0"))], NODES_OF_TEST).keys == [TIER_1]


def test_a_pattern_matches_a_part_of_the_name_as_in_volcano() -> None:
    assert wanted(hyper_node("s", 1, by_pattern("[13]")))[0].keys() == {"n1", "n3"}


@pytest.mark.parametrize(
    ("objects", "problem", "labelled"),
    [
        pytest.param(
            [hyper_node("a", 1, *exact("n0", "n1")), hyper_node("b", 1, *exact("n1"))],
            "node n1 is in 2 HyperNodes of tier 1, a and b: it gets no label of that tier",
            {"n0"},
            id="two domains of one tier",
        ),
        pytest.param(
            [hyper_node("a", 1, *exact("n0", "gone"))],
            "HyperNode a: its member gone does not exist",
            {"n0"},
            id="a node that does not exist",
        ),
        pytest.param(
            [
                hyper_node("a", 2, *exact("b", kind="HyperNode")),
                hyper_node("b", 2, *exact("a", kind="HyperNode"), *exact("n0")),
            ],
            "HyperNode a: its member b has tier 2, not below 2",
            {"n0"},
            id="a cycle",
        ),
        pytest.param(
            [hyper_node("a", 1, *exact("a", kind="HyperNode"), *exact("n0"))],
            "HyperNode a: its member a has tier 1, not below 1",
            {"n0"},
            id="itself",
        ),
        pytest.param(
            [hyper_node("a", 1, by_pattern("("), *exact("n0"))],
            "HyperNode a: error parsing regexp: missing ): (",
            {"n0"},
            id="a wrong pattern",
        ),
        *(
            pytest.param(
                [hyper_node("a", tier, *exact("n0")), hyper_node("b", 1, *exact("n1"))],
                f"HyperNode a: spec.tier is {shown}; it must be 1 to 99",
                {"n1"},
                id=f"tier {shown}",
            )
            for tier, shown in ((0, 0), (100, 100), (-(10**30), -(10**30)), ("1", None))
        ),
    ],
)
def test_what_is_wrong_is_said_and_the_rest_has_its_labels(
    objects: list[Json], problem: str, labelled: set[str]
) -> None:
    labels, problems = wanted(*objects)

    assert problem in problems
    assert {node for node, found in labels.items() if found} == labelled


def test_a_name_that_is_too_long_for_a_label_is_shortened_and_stays_unique() -> None:
    names = ["x" * 100 + end for end in "ab"]
    labels, _ = wanted(*(hyper_node(n, 1, *exact(f"n{at}")) for at, n in enumerate(names)))

    values = [labels[f"n{at}"][TIER_1] for at in range(2)]
    assert len(set(values)) == 2
    assert all(len(value) <= 63 for value in values)


def test_too_many_comparisons_are_rejected() -> None:
    nodes: dict[str, dict[str, str]] = {f"n{at}": {} for at in range(1000)}
    many = [hyper_node(f"h{at}", 1, *[by_pattern("^x")] * 1000) for at in range(51)]

    with pytest.raises(ConfigError, match="Name nodes by exactMatch"):
        labels_by(many, nodes)


@st.composite
def any_json(draw: st.DrawFn) -> Any:
    leaves = st.none() | st.booleans() | st.integers() | st.text(max_size=5)
    keys = st.sampled_from(["type", "selector", "exactMatch", "regexMatch", "labelMatch", "name"])
    return draw(
        st.recursive(
            leaves | st.just("Node") | st.just("HyperNode"),
            lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=3),
            max_leaves=12,
        )
    )


@given(st.lists(any_json(), max_size=4), any_json())
def test_objects_of_any_structure_raise_nothing(members: list[Any], tier: Any) -> None:
    one = hyper_node("a", tier, *members)
    labels_by([one, hyper_node("b", 2, *members)], NODES_OF_TEST)
    hyper_nodes.Relevant([one, {"spec": members}]).of({"metadata": members})


@pytest.fixture
async def client() -> AsyncIterator[Client]:
    """A cluster with HyperNodes of two tiers, and four nodes."""
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": HYPER_NODES.version, "served": True, "storage": True}
    crd = {
        "metadata": {"name": HYPER_NODES.full_name},
        "spec": {
            "group": HYPER_NODES.group,
            "scope": "Cluster",
            "names": {"plural": HYPER_NODES.plural, "kind": HYPER_NODES.kind},
            "versions": [version | {"schema": {"openAPIV3Schema": schema}}],
        },
    }
    async with LocalCluster() as cluster, await Client.connect(cluster.kubeconfig) as client:
        await client.create(CRDS, crd)
        for name, labels in NODES_OF_TEST.items():
            await client.create(NODES, {"metadata": {"name": name, "labels": labels}})
        for obj in (
            hyper_node("s0", 1, by_label(rack="r0")),
            hyper_node("spine", 2, *exact("s0", kind="HyperNode"), *exact("n3")),
        ):
            await client.create(HYPER_NODES, obj)
        yield client


async def labels_of_tiers(client: Client) -> dict[str, dict[str, str]]:
    nodes = (await client.list(NODES))["items"]
    return {
        node["metadata"]["name"]: found
        for node in nodes
        if (found := {k: v for k, v in node["metadata"]["labels"].items() if k != "rack"})
    }


async def test_the_labels_follow_the_hyper_nodes(client: Client) -> None:
    first = await compare(client)
    assert await labels_of_tiers(client) == {}, "a comparison writes nothing"
    assert await apply(client, first.changes) == []
    assert await labels_of_tiers(client) == {
        "n0": {TIER_1: "s0", TIER_2: "spine"},
        "n1": {TIER_1: "s0", TIER_2: "spine"},
        "n3": {TIER_2: "spine"},
    }
    assert (await compare(client)).changes == []

    await client.delete(HYPER_NODES, "s0")
    second = await compare(client)
    assert [(it.node, it.key, it.after) for it in second.changes] == [
        ("n0", TIER_1, None),
        ("n0", TIER_2, None),
        ("n1", TIER_1, None),
        ("n1", TIER_2, None),
    ]
    assert second.labels.problems == ["HyperNode spine: its member s0 does not exist"]


async def test_a_label_that_changed_meanwhile_is_left_alone(client: Client) -> None:
    await apply(client, (await compare(client)).changes)
    await client.delete(HYPER_NODES, "s0")
    old = await compare(client)
    other = PatchBuilder().replace(pointer("metadata", "labels", TIER_1), "other")
    await client.patch(NODES, "n0", other)

    assert await apply(client, old.changes) == ["n0"]
    assert await labels_of_tiers(client) == {
        "n0": {TIER_1: "other", TIER_2: "spine"},
        "n3": {TIER_2: "spine"},
    }


def test_without_a_cluster_the_command_says_so(
    tmp_path: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["label-nodes", "--kubeconfig", str(tmp_path / "none")]) == 2
    assert "muster:" in capsys.readouterr().err
