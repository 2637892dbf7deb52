"""The file formats of traces and clusters, and the errors of invalid ones."""

from pathlib import Path

import pytest

from analysis.lab.amounts import seconds_of, text_of_amount, text_of_seconds
from analysis.lab.cluster import Cluster, read_cluster
from analysis.lab.errors import LabError
from analysis.lab.trace import Job, read_trace, write_trace
from scheduler.core.values.model import NodeInfo


def written(folder: Path, name: str, text: str) -> Path:
    file = folder / name
    file.write_text(text)
    return file


def test_a_csv_file_has_resources_as_columns(tmp_path: Path) -> None:
    file = written(
        tmp_path,
        "t.csv",
        "name,arrival,duration,pods,cpu,memory,nvidia.com/gpu,priority\n"
        "b,2h,90s,4,500m,2Gi,1,7\n"
        "a,0,1d12h,,2,,,\n",
    )

    assert read_trace(file) == [
        Job(name="a", arrival=0, duration=129600, requests=(("cpu", 2000),)),
        Job(
            name="b",
            arrival=7200,
            duration=90,
            pods=4,
            requests=(("cpu", 500), ("memory", 2 << 30), ("nvidia.com/gpu", 1)),
            priority=7,
        ),
    ]


def test_json_lines_are_read_as_they_are_written(tmp_path: Path) -> None:
    jobs = [
        Job(name="a", arrival=1.5, duration=2, pods=3, min_pods=2, requests=(("cpu", 1500),)),
        Job(
            name="b",
            arrival=2,
            duration=2,
            replicas=4,
            min_replicas=2,
            topology="required",
            key="rack",
            gang_topology="preferred",
            gang_key="host",
            requests=(("memory", 3 << 20),),
            disruption="single",
            namespace="x",
            checkpoint=60,
        ),
    ]

    assert read_trace(written(tmp_path, "t.jsonl", write_trace(jobs))) == jobs


HEAD = "name,arrival,duration,pods,cpu,topology,key,min_pods"


@pytest.mark.parametrize(
    ("row", "problem"),
    [
        ("a,0,", "line 2: duration: Required value"),
        ("a,soon,1", "line 2: arrival: 'soon' is not a duration"),
        ("a,-1,1", "line 2: arrival: '-1' must be between 0 and 100 years"),
        ("a,inf,1", "line 2: arrival: 'inf' must be between"),
        ("a,0,1,0", "line 2: pods times replicas must be between 1 and 100000"),
        ("a,0,1,1000000", "must be between 1 and 100000, inclusive"),
        ("a,0,1,1.5", "line 2: pods: invalid literal"),
        ("a,0,1,2,much", "line 2: cpu: not a quantity: 'much'"),
        ("a,0,1,2,-1", "line 2: cpu: must be greater than or equal to 0"),
        ("a,0,1,2,1,maybe,rack", "line 2: Invalid enum value 'maybe' - at `$.topology`"),
        ("a,0,1,2,1,required,", "line 2: key and its topology must be used together"),
        ("a,0,1,2,1,,,3", "line 2: min_pods must be between 0 and pods (2)"),
        ("a,0,1,2,1,,,,,9", "line 2: more values than columns in the header"),
        ("a,0,1\na,1,1", "two jobs have the name default/a"),
        ("", "no jobs found"),
    ],
)
def test_a_wrong_row_is_named_with_its_field(tmp_path: Path, row: str, problem: str) -> None:
    file = written(tmp_path, "t.csv", f"{HEAD}\n{row}\n")

    with pytest.raises(LabError) as raised:
        read_trace(file)

    assert str(file) in str(raised.value)
    assert problem in str(raised.value)


@pytest.mark.parametrize("line", ["{", "[]", '{"name": ' + "[" * 5000])
def test_a_line_that_is_no_json_object_is_named(tmp_path: Path, line: str) -> None:
    with pytest.raises(LabError, match="line 1"):
        read_trace(written(tmp_path, "t.jsonl", line))


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(LabError, match=r"none\.csv"):
        read_trace(tmp_path / "none.csv")


CLUSTER = """
pools:
  - name: big
    count: 3
    resources: {cpu: "8", memory: 1Gi, pods: 20}
    domains: {rack: 2}
    labels: {kind: big}
"""


def test_a_pool_becomes_nodes_in_domains(tmp_path: Path) -> None:
    nodes = read_cluster(written(tmp_path, "c.yaml", CLUSTER)).nodes()

    assert [node.labels["rack"] for node in nodes] == ["big-0000", "big-0000", "big-0001"]
    assert nodes[0].allocatable == {"cpu": 8000, "memory": 1 << 30, "pods": 20}
    assert nodes[2].labels["kind"] == "big"
    assert len({node.labels["kubernetes.io/hostname"] for node in nodes}) == 3


def test_more_nodes_fill_the_last_domain_first(tmp_path: Path) -> None:
    cluster = read_cluster(written(tmp_path, "c.yaml", CLUSTER)).more(2)

    assert [node.labels["rack"] for node in cluster.nodes()][2:] == ["big-0001"] * 2 + ["big-0002"]


def test_more_nodes_of_a_snapshot_are_copies_in_the_same_domains() -> None:
    nodes = tuple(NodeInfo(name, {"cpu": 1}, {"rack": f"r-{name}"}) for name in "ab")

    added = Cluster(others=nodes).more(3).nodes()[2:]

    assert [node.labels["rack"] for node in added] == ["r-b", "r-a", "r-b"]
    assert len({node.name for node in added}) == 3


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("pools: []", "at `$.pools`"),
        ("nodes: 3", "unknown field `nodes`"),
        (CLUSTER.replace("count: 3", "count: 0"), "at `$.pools[0].count`"),
        (CLUSTER.replace('"8"', "much"), "pool big: cpu: not a quantity: 'much'"),
        (CLUSTER + CLUSTER.replace("pools:", ""), "two pools have the same name"),
        ("pools: [", "c.yaml"),
    ],
)
def test_a_wrong_cluster_is_named_with_its_field(tmp_path: Path, text: str, problem: str) -> None:
    with pytest.raises(LabError) as raised:
        read_cluster(written(tmp_path, "c.yaml", text))

    assert problem in str(raised.value)


@pytest.mark.parametrize(
    ("text", "seconds"), [("5", 5), ("1.5", 1.5), ("90s", 90), ("1d12h", 129600), ("2w", 1209600)]
)
def test_times_are_seconds_or_durations(text: str, seconds: float) -> None:
    assert seconds_of(text) == seconds


@pytest.mark.parametrize("text", ["", "1x", "h", "1h 5", "nan", "9" * 400])
def test_what_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"is not a duration|must be between 0 and 100 years"):
        seconds_of(text)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0s"),
        (0.4, "0.4s"),
        (59.6, "1m"),
        (7500, "2h 5m"),
        (90061, "1d 1h"),
        (87000, "1d"),
        (3725, "1h 2m"),
        (61, "1m 1s"),
    ],
)
def test_people_read_two_units(seconds: float, text: str) -> None:
    assert text_of_seconds(seconds) == text


@pytest.mark.parametrize(
    ("resource", "amount", "text"),
    [("cpu", 1500, "1500m"), ("cpu", 2000, "2"), ("memory", 3 << 30, "3Gi"), ("memory", 5, "5")],
)
def test_amounts_are_quantities(resource: str, amount: int, text: str) -> None:
    assert text_of_amount(resource, amount) == text
