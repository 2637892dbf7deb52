"""The verdict of the table, with invented audit logs and claims: it finds what is wrong."""

import json
from pathlib import Path

import pytest

from e2e.faults.high_availability.claims import ClaimObserver
from e2e.faults.high_availability.fences import Fences
from e2e.harness.objects import Json

CREDENTIALS = {"JTI=a": "scheduler-0", "JTI=b": "scheduler-1", "JTI=c": "controller-0"}


def written(second: int, who: str, resource: str, verb: str = "update", code: int = 200) -> Json:
    lease = resource == "leases"
    namespace, name = ("muster-system", "muster-scheduler") if lease else ("ns", "p")
    return {
        "stage": "ResponseComplete",
        "verb": verb,
        "requestURI": f"/{resource}/{name}",
        "requestReceivedTimestamp": f"2026-01-01T00:00:{second:02}.000000Z",
        "user": {"extra": {"authentication.kubernetes.io/credential-id": [f"JTI={who}"]}},
        "objectRef": {"resource": resource, "namespace": namespace, "name": name},
        "responseStatus": {"code": code},
    }


def logged(folder: Path, *logs: list[Json]) -> Fences:
    files = []
    for number, events in enumerate(logs):
        files.append(folder / f"{number}.log")
        files[-1].write_text("".join(f"{json.dumps(event)}\n" for event in events))
    return Fences(files, CREDENTIALS)


def test_a_write_after_anothers_lease_is_late_whichever_server_got_it(tmp_path: Path) -> None:
    first = [written(1, "a", "leases"), written(2, "a", "pods"), written(9, "b", "pods")]
    second = [written(5, "b", "leases"), written(6, "a", "pods", "create")]

    fences = logged(tmp_path, first, second)

    (late,) = fences.late()
    assert late.startswith("scheduler-0 wrote create /pods/p at 2026-01-01T00:00:06")
    assert fences.writes == 3
    assert fences.late() == []


@pytest.mark.parametrize(
    "event",
    [
        written(6, "a", "pods", code=409),
        written(6, "a", "events", "create"),
        written(6, "a", "pods", "get"),
        written(6, "c", "pods"),
        written(6, "unknown", "pods"),
    ],
    ids=["refused", "an event", "a read", "the leader of another process", "a user"],
)
def test_what_needs_no_lease_is_never_late(tmp_path: Path, event: Json) -> None:
    fences = logged(tmp_path, [written(1, "a", "leases"), written(5, "b", "leases"), event])

    assert fences.late() == []


def test_a_lease_that_was_refused_changes_no_leader(tmp_path: Path) -> None:
    refused = written(5, "b", "leases", code=409)

    fences = logged(tmp_path, [written(1, "a", "leases"), refused, written(6, "a", "pods")])

    assert fences.late() == []


def claimed(name: str, *devices: str) -> Json:
    results = [{"driver": "d", "pool": "p", "device": device} for device in devices]
    allocation = {"allocation": {"devices": {"results": results}}} if results else {}
    return {"metadata": {"namespace": "ns", "name": name, "uid": name}, "status": allocation}


def test_a_device_of_two_claims_is_wrong_and_one_that_moves_is_not() -> None:
    observer = ClaimObserver(Path("none"))

    observer.begin([claimed("a", "x"), claimed("b")])
    observer.forget("a")
    observer.see(claimed("b", "x", "y"))
    assert observer.wrongs == []
    observer.see(claimed("c", "y"))

    assert observer.wrongs == ["device ('d', 'p', 'y') of claim ns/c has 2 claims"]
    assert observer.allocated == 3
