from datetime import UTC, datetime
from typing import Any

import pytest

from localcluster.base.resources import (
    EVENTS,
    JOBS,
    NODES,
    PODS,
    PrinterColumn,
    ResourceInfo,
)
from localcluster.base.store import Stored
from localcluster.http import jsonpath
from localcluster.http.table import render
from localcluster.http.tablecolumns import duration

NOW = datetime(2026, 1, 1, 1, 0, 0, tzinfo=UTC)
BORN = "2026-01-01T00:55:00Z"


@pytest.mark.parametrize(
    ("seconds", "want"),
    [
        (0, "0s"), (119, "119s"), (120, "2m"), (125, "2m5s"), (600, "10m"), (10_799, "179m"),
        (10_800, "3h"), (12_000, "3h20m"), (28_800, "8h"), (172_799, "47h"), (180_000, "2d2h"),
        (691_200, "8d"), (63_072_000, "2y"), (-5, "<invalid>"),
    ],
)  # fmt: skip
def test_durations_are_short(seconds: int, want: str) -> None:
    assert duration(seconds) == want


def row(info: ResourceInfo, obj: dict[str, Any]) -> dict[str, Any]:
    whole = {"kind": info.kind, "apiVersion": info.api_version, **obj}
    whole["metadata"] = {"name": "x", "creationTimestamp": BORN, **whole.get("metadata", {})}
    table = render(info, [Stored(whole, 7)], NOW, {})
    names = [definition["name"] for definition in table["columnDefinitions"]]
    return dict(zip(names, table["rows"][0]["cells"], strict=True))


def conditions(**true: str) -> list[dict[str, str]]:
    return [{"type": kind, "status": status} for kind, status in true.items()]


@pytest.mark.parametrize(
    ("info", "obj", "want"),
    [
        pytest.param(
            PODS,
            {
                "spec": {"containers": [{}, {}], "nodeName": "n1"},
                "status": {
                    "phase": "Running",
                    "podIP": "10.0.0.9",
                    "containerStatuses": [{"ready": True, "restartCount": 2}, {"ready": False}],
                },
            },
            {"Ready": "1/2", "Status": "Running", "Restarts": "2", "Node": "n1", "Age": "5m"},
            id="a running pod",
        ),
        pytest.param(
            PODS,
            {"metadata": {"deletionTimestamp": BORN}, "spec": {}, "status": {"phase": "Running"}},
            {"Status": "Terminating", "Node": "<none>"},
            id="a pod on its way out",
        ),
        pytest.param(
            PODS,
            {"spec": {}, "status": {"conditions": [{"type": "x", "reason": "SchedulingGated"}]}},
            {"Status": "SchedulingGated"},
            id="a gated pod",
        ),
        pytest.param(
            NODES,
            {
                "metadata": {"labels": {"node-role.kubernetes.io/worker": ""}},
                "spec": {"unschedulable": True},
                "status": {"conditions": conditions(Ready="True")},
            },
            {"Status": "Ready,SchedulingDisabled", "Roles": "worker"},
            id="a cordoned node",
        ),
        pytest.param(
            JOBS,
            {
                "spec": {"completions": 3, "template": {"spec": {"containers": []}}},
                "status": {
                    "succeeded": 3,
                    "startTime": BORN,
                    "completionTime": "2026-01-01T00:56:30Z",
                    "conditions": conditions(Complete="True"),
                },
            },
            {"Status": "Complete", "Completions": "3/3", "Duration": "90s"},
            id="a job that is done",
        ),
        pytest.param(
            EVENTS,
            {
                "involvedObject": {"kind": "Pod", "name": "p"},
                "type": "Normal",
                "reason": "R",
                "message": "m",
                "lastTimestamp": BORN,
                "count": 3,
                "source": {"component": "c"},
            },
            {"Last Seen": "5m", "Object": "pod/p", "Message": "m", "Count": 3, "Source": "c"},
            id="an event",
        ),
    ],
)
def test_built_in_kinds_have_their_columns(
    info: ResourceInfo, obj: dict[str, Any], want: dict[str, Any]
) -> None:
    cells = row(info, obj)

    assert {name: cells[name] for name in want} == want


def test_custom_kinds_have_the_columns_of_their_definition() -> None:
    columns = (
        PrinterColumn("Ready", "string", '.status.conditions[?(@.type=="Ready")].status'),
        PrinterColumn("Size", "integer", ".spec.size"),
        PrinterColumn("Born", "date", ".metadata.creationTimestamp"),
        PrinterColumn("None", "string", ".spec.none"),
    )
    info = ResourceInfo("x.io", "v1", "things", "Thing", custom=True, columns=columns)
    obj = {"spec": {"size": 4}, "status": {"conditions": conditions(Old="True", Ready="False")}}

    cells = row(info, obj)

    want = {"Name": "x", "Ready": "False", "Size": 4, "Born": "5m", "None": None}
    assert cells == want


def test_other_kinds_show_name_and_age() -> None:
    info = ResourceInfo("x.io", "v1", "things", "Thing", custom=True)

    assert row(info, {}) == {"Name": "x", "Age": "5m"}


@pytest.mark.parametrize(
    ("path", "want"),
    [
        pytest.param(".a.b", ["1"], id="fields"),
        pytest.param("{.a.b}", ["1"], id="braces"),
        pytest.param(".l[0].n", [1], id="an index"),
        pytest.param(".l[-1].n", [2], id="an index from the end"),
        pytest.param(".l[*].n", [1, 2], id="all items"),
        pytest.param(".l[?(@.k=='y')].n", [2], id="a filter"),
        pytest.param(r".m.x\.io/k", ["v"], id="an escaped dot"),
        pytest.param(".m['x.io/k']", ["v"], id="a quoted field"),
        pytest.param(".a.none", [], id="nothing"),
        pytest.param(".l[9]", [], id="beyond the end"),
    ],
)
def test_json_paths(path: str, want: list[Any]) -> None:
    obj = {
        "a": {"b": "1"},
        "l": [{"k": "x", "n": 1}, {"k": "y", "n": 2}],
        "m": {"x.io/k": "v"},
    }

    assert jsonpath.find(obj, path) == want


def test_paths_beyond_us_are_refused() -> None:
    with pytest.raises(ValueError, match="unsupported JSON path"):
        jsonpath.find({}, ".a[?(@.b>1)]")
