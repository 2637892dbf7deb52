"""The message for users: the shortage and its number of nodes, and the one thing to change."""

from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from scheduler.core.explain.explain import Blocker, explain
from scheduler.core.search.place import Refusal
from scheduler.core.values.model import (
    ClaimInfo,
    Expression,
    NodeInfo,
    NodeTerm,
    PodSelector,
    PodTerm,
    Requirements,
    Spread,
    Taint,
    VolumeInfo,
)
from tests.scheduler.state_builder import GIB, StateBuilder, requests
from tests.support.counting import calls

CORDONED = Taint("node.kubernetes.io/unschedulable", "", "NoSchedule")


def waits(
    count: int, requirements: Requirements, *, rack: bool = False
) -> Callable[[StateBuilder], None]:
    def add(builder: StateBuilder) -> None:
        builder.gang("g", count, rack=rack)
        for _ in range(count):
            builder.pod("g", requirements=requirements)

    return add


@pytest.mark.parametrize(
    ("owner", "parent", "want"),
    [
        (None, None, "Lower minCount to 8"),
        (
            ("JobSet", "a"),
            None,
            'Lower minCount to 8 with the min-count annotation next to gang-mode in JobSet "a"',
        ),
        (("JobSet", "a"), "top", "Lower minCount to 8"),
        (("Pod", "a"), None, "Lower minCount to 8 with the min-count annotation of its pods"),
        (("PodGroup", "a"), None, 'Lower minMember of coscheduling PodGroup "a" to 8'),
        (("Workload", "w"), None, 'Lower minCount of template "t" of Workload "w" to 8'),
    ],
)
def test_the_field_that_sets_the_minimum_is_named(
    owner: tuple[str, str] | None, parent: str | None, want: str
) -> None:
    builder = StateBuilder()
    builder.nodes(2)
    if parent is not None:
        builder.composite(parent, 1)
    builder.gang("g", 10, parent=parent)
    for _ in range(10):
        builder.pod("g", cpu=1)
    refusal = refused(builder)
    group = builder.state.forest.groups[refusal.shortage.at]
    assert group.spec is not None
    builder.state.set_group(replace(group.spec, owner=owner, template="t"))

    message = explain(builder.state, refusal).summary

    assert message.endswith(f" at most 8 such pods fit on empty nodes. {want}, or add nodes.")


def refused(builder: StateBuilder) -> Refusal:
    found = builder.place("g")
    assert isinstance(found, Refusal)
    return found


@pytest.mark.parametrize(
    ("nodes", "gang", "want"),
    [
        pytest.param(
            lambda _builder: None,
            waits(2, Requirements(requests(1))),
            "no nodes available to schedule pods. The group needs capacity for 2 more pods;"
            " 0 fit. Add nodes.",
            id="no nodes",
        ),
        pytest.param(
            lambda builder: (
                builder.nodes(3),
                [builder.pod(cpu=4, node=f"n{i}") for i in range(3)],
            ),
            waits(4, Requirements(requests(1))),
            (
                "0/3 nodes are available: 3 Insufficient cpu. The group needs capacity for 4"
                " more pods; 0 fit. It starts when this capacity is free."
            ),
            id="busy: nothing to change",
        ),
        pytest.param(
            lambda builder: builder.nodes(3),
            waits(1, Requirements(requests(64))),
            (
                "0/3 nodes are available: 3 Insufficient cpu. The group needs capacity for 1"
                " more pod; 0 fit. Waiting does not help: a pod requests 64 cpu, and the largest"
                " node that it can use has 4. Request less."
            ),
            id="a pod larger than any node",
        ),
        pytest.param(
            lambda builder: builder.nodes(3),
            waits(1, Requirements(requests(0, memory=65 * GIB))),
            (
                "0/3 nodes are available: 3 Insufficient memory. The group needs capacity"
                " for 1 more pod; 0 fit. Waiting does not help: a pod requests 65Gi memory, and the"
                " largest node that it can use has 64Gi. Request less."
            ),
            id="bytes in binary units",
        ),
        pytest.param(
            lambda builder: (builder.node("a", 8, gpu=1), builder.node("b", 1, gpu=8)),
            waits(1, Requirements(requests(4, gpu=4))),
            (
                "0/2 nodes are available: 1 Insufficient cpu, 1 Insufficient gpu. The group"
                " needs capacity for 1 more pod; 0 fit. Waiting does not help: no node has"
                " all resources that a pod requests. Request less."
            ),
            id="each request fits somewhere, all of them nowhere",
        ),
        pytest.param(
            lambda builder: builder.nodes(2),
            waits(10, Requirements(requests(1))),
            (
                "0/2 nodes are available: 2 Insufficient cpu. The group needs capacity for"
                " 10 more pods; 8 fit. Waiting does not help: at most 8 such pods fit"
                " on empty nodes. Lower"
                " minCount to 8, or add nodes."
            ),
            id="a gang larger than the cluster",
        ),
        pytest.param(
            lambda builder: builder.nodes(4, rack_of=2),
            waits(9, Requirements(requests(1)), rack=True),
            (
                "0/4 nodes are available: 4 Insufficient cpu. The group needs capacity for 9"
                " more pods in one rack; 8 fit in r000, the best one. Waiting does not help:"
                " lower minCount, request less, or let the group span more than one rack."
            ),
            id="a gang larger than a rack",
        ),
        pytest.param(
            lambda builder: builder.nodes(2),
            waits(1, Requirements(requests(1), selector=(("zone", "x"),))),
            (
                "0/2 nodes are available: 2 node(s) didn't match Pod's node"
                " affinity/selector. The group needs capacity for 1 more pod; 0 fit. Waiting"
                " does not help: change the node selector or affinity, or label a node."
            ),
            id="a selector that matches nothing",
        ),
        pytest.param(
            lambda builder: builder.node("n", taints=(Taint("team", "a", "NoSchedule"),)),
            waits(1, Requirements(requests(1))),
            (
                "0/1 nodes are available: 1 node(s) had untolerated taint {team: a}. The"
                " group needs capacity for 1 more pod; 0 fit. Waiting does not help: add a"
                " toleration for {team: a}, or remove the taint."
            ),
            id="a taint that is not tolerated",
        ),
        pytest.param(
            lambda builder: (
                builder.nodes(2),
                builder.node("n", labels={"zone": "x"}, taints=(Taint("team", "a", "NoSchedule"),)),
            ),
            waits(1, Requirements(requests(1), selector=(("zone", "x"),))),
            (
                "0/3 nodes are available: 2 node(s) didn't match Pod's node"
                " affinity/selector, 1 node(s) had untolerated taint {team: a}. The group"
                " needs capacity for 1 more pod; 0 fit. Waiting does not help: add a"
                " toleration for {team: a}, or remove the taint."
            ),
            id="a taint on the only node that is chosen",
        ),
        pytest.param(
            lambda builder: builder.node("n", unschedulable=True),
            waits(1, Requirements(requests(1))),
            (
                "0/1 nodes are available: 1 node(s) were unschedulable. The group needs"
                " capacity for 1 more pod; 0 fit. Waiting does not help: uncordon a node."
            ),
            id="all nodes cordoned",
        ),
        pytest.param(
            lambda builder: builder.node("n", unschedulable=True, taints=(CORDONED,)),
            waits(1, Requirements(requests(1))),
            (
                "0/1 nodes are available: 1 node(s) were unschedulable. The group needs"
                " capacity for 1 more pod; 0 fit. Waiting does not help: uncordon a node."
            ),
            id="all nodes cordoned, as the node controller marks them",
        ),
        pytest.param(
            lambda builder: builder.node("n", cpu=8, pods=2),
            waits(3, Requirements(requests(1))),
            (
                "0/1 nodes are available: 1 Too many pods. The group needs capacity for 3"
                " more pods; 2 fit. Waiting does not help: at most 2 such pods fit"
                " on empty nodes. Lower"
                " minCount to 2, or add nodes."
            ),
            id="the node's own limit of pods",
        ),
    ],
)
def test_the_summary_says_what_is_short_and_what_to_change(
    nodes: Callable[[StateBuilder], object], gang: Callable[[StateBuilder], None], want: str
) -> None:
    builder = StateBuilder()
    nodes(builder)
    gang(builder)

    refusal = builder.place("g")

    assert isinstance(refusal, Refusal)
    assert explain(builder.state, refusal).summary == want


def test_pods_that_must_be_apart_are_told_so_and_not_that_cpu_is_short() -> None:
    builder = StateBuilder()
    for name in ("a", "b"):
        builder.node(name, labels={"host": name})
    selector = PodSelector((Expression("app", "In", ("x",)),), ("ns",))
    apart = Requirements(requests(1), required_anti_affinity=(PodTerm(selector, "host"),))
    builder.gang("g", 4)
    for _ in range(4):
        builder.pod("g", requirements=apart, labels={"app": "x"})

    refusal = builder.place("g")

    assert isinstance(refusal, Refusal)
    summary = explain(builder.state, refusal).summary
    assert "cpu" not in summary
    assert "2 node(s) didn't match pod anti-affinity rules." in summary
    assert summary.endswith(
        "anti-affinity keeps the pods apart by host. Lower minCount, or add nodes."
    )


def test_a_claim_that_is_not_bound_is_told_and_not_that_cpu_is_short() -> None:
    builder = StateBuilder()
    builder.nodes(2)
    builder.state.volumes.set_claim(ClaimInfo(("ns", "data")))
    waits(4, Requirements(requests(1), claims=(("ns", "data"),)))(builder)

    refusal = builder.place("g")

    assert isinstance(refusal, Refusal)
    assert explain(builder.state, refusal).summary == (
        "0/2 nodes are available: pod has unbound immediate PersistentVolumeClaims. The"
        " group needs capacity for 4 more pods; 0 fit. Bind the claims, or set a"
        " storageClassName whose provisioner creates volumes."
    )


def summary(builder: StateBuilder, name: str = "g", *, composite: bool = False) -> str:
    refusal = builder.place(name, composite=composite)
    assert isinstance(refusal, Refusal)
    return explain(builder.state, refusal).summary


CLAIM = ("ns", "data")
HERE = (NodeTerm((Expression("disk", "In", ("ssd",)),)),)


@pytest.mark.parametrize(
    ("claim", "volume", "want"),
    [
        pytest.param(
            ClaimInfo(CLAIM, volume="v"),
            None,
            "the claims name PersistentVolumes that do not exist. Restore these, or create"
            " new claims",
            id="the volume is gone",
        ),
        pytest.param(
            ClaimInfo(CLAIM, volume="v"),
            VolumeInfo("v", affinity=HERE),
            "the PersistentVolumes can be used on other nodes only. Free capacity there, or"
            " use other claims",
            id="the volume is elsewhere",
        ),
        pytest.param(
            ClaimInfo(CLAIM, volume="v"),
            VolumeInfo("v", labels={"topology.kubernetes.io/zone": "z"}),
            "the PersistentVolumes are in other zones. Free capacity there, or use other claims",
            id="the volume is in another zone",
        ),
        pytest.param(
            ClaimInfo(CLAIM, volume="v", one_pod=True),
            VolumeInfo("v"),
            "delete the pod that uses the claim, or use a claim that several pods can share",
            id="another pod has it alone",
        ),
    ],
)
def test_what_is_wrong_with_a_volume_is_told_with_its_own_way_out(
    claim: ClaimInfo, volume: VolumeInfo | None, want: str
) -> None:
    builder = StateBuilder()
    builder.node("n0", labels={"topology.kubernetes.io/zone": "other"})
    builder.state.volumes.set_claim(claim)
    if volume is not None:
        builder.state.volumes.set_volume(volume)
    if claim.one_pod:
        builder.pod(requirements=Requirements(requests(1), claims=(CLAIM,)), node="n0")
    waits(1, Requirements(requests(1), claims=(CLAIM,)))(builder)

    assert summary(builder).endswith(f" {want[0].upper()}{want[1:]}.")


def test_who_is_kept_away_by_pods_that_run_is_told_so() -> None:
    builder = StateBuilder()
    builder.node("n0", labels={"host": "n0"})
    selector = PodSelector((Expression("app", "In", ("x",)),), ("ns",))
    required_anti_affinity = Requirements(
        requests(1), required_anti_affinity=(PodTerm(selector, "host"),)
    )
    builder.pod(requirements=required_anti_affinity, node="n0")
    builder.gang("g", 1)
    builder.pod("g", labels={"app": "x"})

    assert summary(builder).endswith(
        "Existing pods exclude these pods. Delete them, or change their anti-affinity."
    )


def test_a_label_to_spread_over_that_no_node_has_is_named() -> None:
    builder = StateBuilder()
    builder.nodes(1)
    selector = PodSelector((Expression("app", "In", ("x",)),), ("ns",))
    waits(1, Requirements(requests(1), spread=(Spread(selector, "zone"),)))(builder)

    assert summary(builder).endswith(
        "The pods spread over zone. Add this label to nodes, or correct topologyKey."
    )


def test_a_topology_key_that_no_node_has_is_named_with_the_number_of_nodes() -> None:
    builder = StateBuilder()
    builder.nodes(2)
    waits(1, Requirements(requests(1)), rack=True)(builder)

    assert summary(builder) == (
        'None of 2 nodes has the label "rack". Label nodes, or create the group again with another'
        " topology key."
    )


@pytest.mark.parametrize(
    ("owner", "again"),
    [
        (("JobSet", "a"), 'create JobSet "a" again'),
        (("Pod", "a"), "create its pods again"),
        (("PodGroup", "a"), 'create coscheduling PodGroup "a" again'),
        (("Workload", "w"), "create the group again"),
    ],
)
def test_a_wrong_topology_key_is_corrected_where_it_was_set(
    owner: tuple[str, str], again: str
) -> None:
    builder = StateBuilder()
    builder.nodes(2)
    waits(1, Requirements(requests(1)), rack=True)(builder)
    (group,) = builder.state.forest.groups.values()
    assert group.spec is not None
    group.spec = replace(group.spec, owner=owner)

    assert summary(builder).endswith(f" Label nodes, or {again} with another topology key.")


def test_a_tree_in_which_too_few_children_could_run_says_so() -> None:
    builder = StateBuilder()
    builder.nodes(1)
    builder.gang("root", 2, composite=True)
    builder.gang("a", 1, parent="root")
    builder.pods("a", 1)
    builder.gang("b", 1, parent="root")

    assert summary(builder, "root", composite=True) == (
        "The group needs 2 more child groups; 1 can start. Lower minGroupCount, or"
        " wait for the others."
    )


def test_room_that_sisters_take_is_said_to_be_taken() -> None:
    """Five are free: three for one leaf leave two for the other."""
    builder = StateBuilder()
    builder.nodes(1, cpu=5)
    builder.gang("root", 2, composite=True)
    for name in ("a", "b"):
        builder.gang(name, 3, parent="root")
        builder.pods(name, 3)

    refusal = builder.place("root", composite=True)

    assert isinstance(refusal, Refusal)
    assert explain(builder.state, refusal).summary == (
        '0/1 nodes are available: 1 Insufficient cpu. With the 3 pods of PodGroup "a" placed, the'
        " group needs capacity for 3 more pods; 2 fit. Waiting does not help: the 6 pods of the"
        " tree request 6 cpu, and all nodes have 5. Lower minCount or minGroupCount, request less,"
        " or add nodes."
    )


def test_nodes_that_are_cordoned_or_tainted() -> None:
    builder = StateBuilder()
    builder.node("a", unschedulable=True, taints=(CORDONED,))
    builder.node("b", taints=(Taint("team", "a", "NoSchedule"),))
    builder.gang("g", 1)
    builder.pod("g")

    refusal = builder.place("g")

    assert isinstance(refusal, Refusal)
    assert explain(builder.state, refusal).summary.endswith(
        "Waiting does not help: add a toleration for {team: a}, or remove the taint."
    )


class _NotOneByOne(list[NodeInfo | None]):
    """Nodes that must not be iterated in Python: there may be 50,000 for each rejection."""

    def __iter__(self) -> Iterator[NodeInfo | None]:
        raise AssertionError("all nodes were gone through")


@pytest.mark.parametrize("key", ["rack", "no-such-key"])
def test_a_sentence_costs_no_pass_over_all_nodes(key: str) -> None:
    builder = StateBuilder()
    builder.nodes(4, rack_of=2)
    builder.state.remove_node("n3")
    builder.gang("g", 20, rack=True, key=key)
    builder.pods("g", 20)
    nodes = builder.state.nodes
    nodes.infos = _NotOneByOne(nodes.infos)

    said = summary(builder)

    assert "3 nodes" in said


def test_pods_that_fit_one_by_one_and_never_together_are_impossible() -> None:
    """3 and 2 CPUs on one host of 4.

    Without the second one, or with one host of 5, it is possible.
    """

    def blocker(*cpus: int, hosts: tuple[int, ...] = (4, 4)) -> Blocker:
        builder = StateBuilder()
        for number, cpu in enumerate(hosts):
            builder.node(f"n{number}", cpu, labels={"host": f"n{number}"})
            builder.pod(None, cpu - 1, node=f"n{number}")
        builder.gang("g", len(cpus), rack=True, key="host")
        for cpu in cpus:
            builder.pod("g", cpu)
        return explain(builder.state, refused(builder))

    assert blocker(3, 2).impossible
    assert not blocker(3).impossible
    assert not blocker(3, 2, hosts=(4, 5)).impossible


def test_a_second_group_of_a_running_tree_that_lacks_a_rack() -> None:
    builder = StateBuilder()
    for number in range(6):
        builder.node(f"n{number}", 4, labels={"rack": f"r{number}"})
    builder.composite("tree", 1)
    builder.gang("a", 1, parent="tree", created="1")
    builder.pod("a", 1, node="n0")
    builder.gang("b", 2, parent="tree", rack=True, created="2")
    builder.pods("b", 2, 3)

    found = builder.place("tree", composite=True)

    assert isinstance(found, Refusal)
    blocker = explain(builder.state, found)
    assert (blocker.needed, blocker.free, blocker.at[2]) == (2, 1, "b")
    assert blocker.best_domain is not None
    assert not blocker.minimum


@pytest.mark.parametrize(("key", "fits"), [("host", False), ("rack", True)])
def test_pods_that_must_be_apart_on_one_host_are_impossible(key: str, fits: bool) -> None:
    """The number of hosts does not matter, so all pods are checked together."""
    selector = PodSelector((Expression("app", "In", ("x",)),), ("ns",))
    wants = Requirements(requests(1), required_anti_affinity=(PodTerm(selector, "host"),))

    def work(hosts: int) -> int:
        builder = StateBuilder()
        for number in range(hosts):
            builder.node(f"n{number}", 4, labels={"host": f"n{number}", "rack": f"r{number // 4}"})
            builder.pod(None, 4 if fits else 1, node=f"n{number}")
        builder.gang("g", 2, rack=True, key=key)
        for _ in range(2):
            builder.pod("g", requirements=wants, labels={"app": "x"})
        refusal = refused(builder)
        explain(builder.state, refusal)
        assert explain(builder.state, refusal).impossible is not fits
        return calls(lambda: explain(builder.state, refusal))

    assert work(200) <= 1.3 * work(100)
