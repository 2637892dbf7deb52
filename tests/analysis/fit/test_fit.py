"""Whether workloads would fit: the verdicts, and the scheduler's own decision next to them."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from analysis.fit.fit import fit
from analysis.fit.known_ends import Times
from analysis.fit.messages import FitRequest, FitResult, FitRoot, FitWorkload
from analysis.fit.text import result_lines
from analysis.simulate.deciding import Setup
from analysis.simulate.simulate import add_all
from analysis.simulate.stored_pods import PodAdmission
from api.priority import PriorityClass
from cli.commands.console_client import ConsoleServer
from cli.main import main
from kube.base.errors import ConfigError
from scheduler.core.decide import decide
from scheduler.core.preemption.dry_run import SearchEffort
from scheduler.core.preemption.plan import Plan, preempt
from scheduler.core.search.place import Placement, SearchBudget
from scheduler.core.state.state import State
from scheduler.core.values.model import (
    POD_GROUP,
    GroupSpec,
    PodInfo,
    PreemptionInfo,
    Requirements,
)
from scheduler.decoding.objects import group_of
from scheduler.expected.pods import ExpectedPods
from scheduler.snapshot.snapshot import Limits, encode, queue_of, restore, take
from scheduler.support.config import ExpectedLimits
from scheduler.watch.published_places import follow_published
from tests.analysis.what_if.test_what_if import cluster, gang, job
from tests.scheduler.fingerprint import fingerprint
from tests.scheduler.state_builder import StateBuilder, requests
from tools.testing.effort import examples

Json = dict[str, Any]
GANG = {"gang-mode": "Gang"}
CLASSES = (PriorityClass("high", 100), PriorityClass("low", 0))
SETUP = Setup(pods=PodAdmission(CLASSES))


def with_priority(made: Json, name: str) -> Json:
    made["spec"]["template"]["spec"]["priorityClassName"] = name
    return made


def copied(state: State) -> State:
    limits = Limits.of(SearchBudget())
    return restore(take(state, queue_of(state), limits, list(CLASSES), decisions=0))[0]


def settle(state: State) -> list[str]:
    """Return the fingerprint of the state, after what is due on it anyway."""
    for _ in state.catch_up():
        pass
    state.units.refresh()
    return fingerprint(state)


def ask(
    builder: StateBuilder,
    *workloads: Json | list[Json],
    setup: Setup = SETUP,
    times: Times | None = None,
    together: bool = False,
) -> list[FitResult]:
    """Return the results; the state must be the same afterwards."""
    lists = [each if isinstance(each, list) else [each] for each in workloads]
    asked = [FitWorkload(objects=objects) for objects in lists]
    request = FitRequest(workloads=asked, together=together, namespace="ns")
    before = settle(builder.state)
    answer = fit(builder.state, request, setup, times, lambda: copied(builder.state))
    assert fingerprint(builder.state) == before
    return answer.workloads


def root_of(result: FitResult) -> FitRoot:
    (root,) = result.roots
    return root


def full(*, priority: int = 0) -> StateBuilder:
    """Return two racks of two nodes, all used by gangs of four pods."""
    builder = cluster()
    for node in builder.state.nodes.row_of:
        gang(builder, f"on-{node}", 4, on=node, priority=priority)
    return builder


def test_what_preempts_names_its_victims() -> None:
    (found,) = ask(full(), with_priority(job("new", 6, **GANG), "high"))
    root = root_of(found)
    assert (found.fits, root.fits, root.pods) == ("yes", "afterEviction", 6)
    assert sum(each.pods for each in root.evicts) == root.evicted_pods == 6
    assert {each.priority for each in root.evicts} == {0}
    assert all(each.id.startswith("ns/PodGroup/on-r") for each in root.evicts)
    assert sum(node.pods for node in root.nodes or ()) == 6


def test_victims_that_go_together_are_one_unit() -> None:
    builder = cluster(racks=1, nodes=1)
    builder.gang("whole", 4, disruption="all")
    for _ in range(4):
        builder.pod("whole", node="r1-1")
    (victim,) = root_of(ask(builder, with_priority(job("new", 1), "high"))[0]).evicts
    assert (victim.pods, victim.units) == (4, 1)


def test_nobody_is_evicted_without_preemption() -> None:
    setup = Setup(pods=SETUP.pods, preempts=False)
    (found,) = ask(full(), with_priority(job("new", 6, **GANG), "high"), setup=setup)
    assert found.fits == "no"


def test_what_never_fits_is_refused_whatever_the_search_has_tried() -> None:
    budget = SearchBudget(expired=lambda: True)
    (large,) = ask(cluster(), job("new", 99, **GANG), setup=Setup(budget=budget))
    assert large.fits == "no"
    (busy,) = ask(full(), job("new", 4, **GANG), setup=Setup(budget=budget))
    assert busy.fits == "unknown"
    assert root_of(busy).sentence.startswith("Not known within the budget of the search.")


def ending(builder: StateBuilder, node: str, cpu: int, **preemption: Any) -> None:
    builder.state.set_pod(
        PodInfo(
            f"ends-{node}", "ns", f"ends-{node}", Requirements(requests(cpu)), node=node,
            phase="Running", terminating="leaves_by" in preemption, started=1_000.0,
            preemption=PreemptionInfo(**preemption),
        )
    )  # fmt: skip


NOW = Times(now=2_000.0, monotonic=50.0)


@pytest.mark.parametrize(
    ("ends", "pods", "at"),
    [
        ([{"deadline": 1_500.0}], 4, "1970-01-01T00:41:40Z"),
        ([{"deadline": 1_500.0}, {"deadline": 3_000.0}], 4, "1970-01-01T00:41:40Z"),
        ([{"deadline": 1_500.0}, {"deadline": 3_000.0}], 8, "1970-01-01T01:06:40Z"),
        ([{"leaves_by": 60.0}], 4, "1970-01-01T00:33:30Z"),
        ([{"deadline": 500.0}], 4, None),  # it should have ended
        ([{"deadline": 1e18}], 4, None),
        ([{}], 4, None),
        ([{"deadline": 1_500.0}], 5, None),
    ],
)
def test_the_earliest_time_is_that_of_known_ends(
    ends: list[dict[str, float]], pods: int, at: str | None
) -> None:
    builder = cluster(racks=1, nodes=2)
    for node, fields in zip(("r1-1", "r1-2"), [*ends, {}], strict=False):
        ending(builder, node, 4, **fields)
    setup = Setup(effort=SearchEffort(soon=0.0))
    (found,) = ask(builder, job("new", pods, **GANG), setup=setup, times=NOW)
    root = root_of(found)
    assert (root.fits, root.known_from) == ("no", at)


def test_held_places_that_end_let_it_fit() -> None:
    builder = cluster(racks=1, nodes=1)
    key = (POD_GROUP, "ns", "holds")
    container = {"name": "main", "resources": {"requests": {"cpu": "1"}}}
    worker = {"name": "worker", "count": 4, "template": {"spec": {"containers": [container]}}}
    holding = group_of(
        {
            "metadata": {"name": "holds", "namespace": "ns", "uid": "u"},
            "spec": {"schedulingPolicy": {"gang": {"minCount": 4}}, "expectedPods": [worker]},
            "status": {"heldPlaces": {"pods": [{"name": "worker", "node": "r1-1", "count": 4}]}},
        }
    )
    builder.state.set_group(GroupSpec(key, 4))
    expected = ExpectedPods(builder.state, ExpectedLimits())
    for info in expected.on_group_changed(key[1:], holding).set:
        builder.state.set_pod(info)
    assert follow_published(builder.state, expected, key, holding)

    times = replace(NOW, held_until=lambda group: 2_100.0 if group == key else None)
    (found,) = ask(builder, job("new", 4, **GANG), times=times)
    assert (found.fits, root_of(found).known_from) == ("no", "1970-01-01T00:35:00Z")
    (found,) = ask(builder, job("new", 4, **GANG), times=NOW)
    assert root_of(found).known_from is None


def test_what_fits_once_terminating_pods_are_gone_says_when() -> None:
    builder = cluster(racks=1, nodes=1)
    ending(builder, "r1-1", 4, leaves_by=60.0)
    (found,) = ask(builder, job("new", 4, **GANG), times=NOW)
    root = root_of(found)
    assert (found.fits, root.fits, root.known_from) == (
        "yes", "afterTermination", "1970-01-01T00:33:30Z",
    )  # fmt: skip


def test_what_is_not_complete_says_what_it_lacks() -> None:
    group = {
        "apiVersion": "scheduling.muster.dev/v1alpha3", "kind": "PodGroup",
        "metadata": {"name": "g", "namespace": "ns"},
        "spec": {"schedulingPolicy": {"gang": {"minCount": 3}}},
    }  # fmt: skip
    (found,) = ask(cluster(), group)
    assert root_of(found).sentence.startswith("The group has 0 of 3 pods")

    pod = {
        "kind": "Pod", "metadata": {"name": "p", "namespace": "ns"},
        "spec": {"schedulingGates": [{"name": "g"}], "containers": [{"name": "c"}]},
    }  # fmt: skip
    (found,) = ask(cluster(), pod)
    assert "non-empty scheduling gates" in root_of(found).sentence


def test_what_needs_a_copy_is_decided_on_one() -> None:
    builder = cluster(racks=1, nodes=2)
    claim = {
        "apiVersion": "v1", "kind": "PersistentVolumeClaim",
        "metadata": {"name": "c", "namespace": "ns"}, "spec": {"storageClassName": "fast"},
    }  # fmt: skip
    storage = {
        "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "provisioner": "p",
        "metadata": {"name": "fast"}, "volumeBindingMode": "WaitForFirstConsumer",
    }  # fmt: skip
    made = job("new", 1)
    made["spec"]["template"]["spec"]["volumes"] = [
        {"name": "v", "persistentVolumeClaim": {"claimName": "c"}}
    ]
    first, second = ask(builder, [made, claim, storage], job("other", 2, **GANG))
    assert (first.fits, second.fits) == ("yes", "yes")
    # The second evicts what the first has just got, which only a copy can tell.
    low, high = (with_priority(job(name, 8, **GANG), name) for name in ("low", "high"))
    first, second = ask(builder, low, high, together=True)
    assert (first.fits, root_of(second).fits) == ("yes", "afterEviction")


def test_errors_name_the_workload_and_the_field() -> None:
    with pytest.raises(ConfigError, match=r"workloads\[1\]: .*no PriorityClass with name none"):
        ask(cluster(), job("a", 1), with_priority(job("b", 1), "none"))


def test_lines_say_all_of_it() -> None:
    made = with_priority(job("new", 6, topology="rack", **GANG), "high")
    (found,) = ask(full(), made)
    lines = list(result_lines(found))
    assert lines[0] == "PodGroup ns/pg-job-new: fits after evictions"
    assert any(line.startswith("  rack=r") and line.endswith(": 6 pods") for line in lines)
    assert "  would evict 6 pods of lower priority:" in lines
    victims = [line for line in lines if line.startswith("    ns/PodGroup/on-r")]
    assert len(victims) == len(root_of(found).evicts)
    (refused,) = ask(full(priority=200), made)
    assert list(result_lines(refused))[-1] == "  from when it fits is not known"


@st.composite
def stages(draw: st.DrawFn) -> tuple[list[tuple[int, int]], Json]:
    """Draw pods with priorities on four nodes, and a workload."""
    running = draw(st.lists(st.tuples(st.integers(0, 3), st.sampled_from([0, 100])), max_size=10))
    mode = draw(st.sampled_from([{}, GANG, {**GANG, "topology": "rack"}]))
    cpu = draw(st.sampled_from(["1", "2", "3"]))
    made = job("new", draw(st.integers(1, 6)), cpu, **mode)
    return running, with_priority(made, draw(st.sampled_from(["high", "low"])))


@examples(60, 1500)
@given(stages())
def test_the_answer_is_what_the_scheduler_does(stage: tuple[list[tuple[int, int]], Json]) -> None:
    running, made = stage
    builder = cluster()
    nodes = list(builder.state.nodes.row_of)
    free = dict.fromkeys(nodes, 4)
    for at, priority in running:
        if free[nodes[at]] >= 1:
            free[nodes[at]] -= 1
            builder.pod(node=nodes[at], priority=priority)
    (found,) = ask(builder, made)

    state = copied(builder.state)
    add_all(state, [made], "ns", SETUP, most=100)
    for root in found.roots:
        key = (root.id.split("/")[1], "ns", root.id.split("/")[2])
        entity = state.singles.get(key) or state.forest.groups[key]
        outcome = decide(state, entity, SearchBudget())
        if isinstance(outcome, Placement):
            assert root.fits == "now"
            state.assume(outcome.pods, outcome.rows)
            continue
        plan = preempt(state, entity, outcome, SearchBudget(), SearchEffort())
        if not isinstance(plan, Plan):
            assert root.fits == "no"
            continue
        victims = {f"ns/Pod/{pod.info.name}" for pod in plan.pods}
        assert (root.fits, {each.id for each in root.evicts}) == ("afterEviction", victims)
        for pod in plan.pods:
            state.remove_pod(pod.info.uid)
        state.assume(plan.placement.pods, plan.placement.rows)


@pytest.mark.parametrize(
    ("url", "want"),
    [
        ("https://h", "https://h"),
        ("https://h/", "https://h"),
        ("https://h:443", "https://h"),
        ("https://h:8443", "https://h:8443"),
        ("http://localhost:80", "http://localhost"),
        ("http://h", None),
        ("h:8443", None),
        ("https://", None),
        ("https://h/path", None),
    ],
)
def test_the_origin_of_a_console_is_that_of_its_page(url: str, want: str | None) -> None:
    if want is not None:
        assert ConsoleServer(url).origin == want
        return
    with pytest.raises(ConfigError, match=r"--server: .* must be https://HOST"):
        _ = ConsoleServer(url).origin


@pytest.fixture
def snapshot(tmp_path: Path) -> Path:
    state = cluster().state
    file = tmp_path / "snapshot.json"
    limits = Limits.of(SearchBudget())
    file.write_bytes(encode(take(state, queue_of(state), limits, list(CLASSES))))
    return file


def test_the_command_has_an_exit_code_for_each_verdict(
    snapshot: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = {}
    for name, made in (("a", job("a", 10, **GANG)), ("b", job("b", 10, **GANG)), ("c", {})):
        files[name] = tmp_path / f"{name}.yaml"
        files[name].write_text(yaml.safe_dump(made))

    def code(*arguments: str) -> int:
        named = [str(files.get(each, each)) for each in arguments]
        return main(["fit", "--snapshot", str(snapshot), *named])

    assert code("-f", "a") == 0
    assert "PodGroup ns/pg-job-a: fits now\n  nodes: r1-1 x4" in capsys.readouterr().out
    assert code("-f", "a", "-f", "b") == 0
    assert code("-f", "a", "-f", "b", "--together") == 1
    assert code("-f", "a", "-o", "name") == 0
    assert capsys.readouterr().out.endswith("podgroup.scheduling.muster.dev/pg-job-a\n")
    assert code("-f", "c") == 2
    assert "c.yaml: document 0: Object 'Kind' is missing" in capsys.readouterr().err
    assert code("-f", "a", "--server", "https://x") == 2
    assert main(["fit", "-f", str(files["a"]), "--server", "http://example.com"]) == 2
    assert "must be https://HOST[:PORT]" in capsys.readouterr().err
