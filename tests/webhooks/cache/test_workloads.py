"""The Workloads for reviews, by name and by owner, in little memory."""

import tracemalloc
from itertools import count
from typing import Any

import msgspec

from api.constants import JOB
from api.integration.common.workloads import OwnerName
from tests.support.owners import made_for
from webhooks.cache.workloads import WorkloadCache, decode_workload

_VERSIONS = count(1)
OWNER = OwnerName("batch", "Job", "a")


def seen(cache: WorkloadCache, name: str, owner: OwnerName | None = OWNER, **meta: Any) -> None:
    spec: dict[str, Any] = {"podGroupTemplates": [{"name": name}]}
    if owner is not None:
        spec["controllerRef"] = {"apiGroup": owner.group, "kind": owner.kind, "name": owner.name}
    version = str(next(_VERSIONS))
    metadata = {"name": name, "namespace": "team", "resourceVersion": version, **meta}
    cache.upsert(decode_workload(msgspec.json.encode({"metadata": metadata, "spec": spec})))


def name_of(found: Any) -> str:
    return "" if found is None else str(found["spec"]["podGroupTemplates"][0]["name"])


def test_the_workload_of_a_user_and_the_first_of_all() -> None:
    cache = WorkloadCache()

    def found() -> tuple[str, str]:
        return name_of(cache.of_user("team", OWNER)), name_of(cache.of_owner("team", OWNER))

    assert found() == ("", "")
    seen(cache, "generated", **made_for(JOB, "a", "u"))
    assert found() == ("", "generated")
    seen(cache, "mine")
    assert found() == ("mine", "generated")
    seen(cache, "another", OwnerName("batch", "Job", "b"))
    seen(cache, "nobody", None)
    assert found() == ("mine", "generated")
    seen(cache, "first")
    assert found() == ("", "first")
    seen(cache, "first", deletionTimestamp="2026-01-01T00:00:00Z")
    assert found() == ("mine", "generated")
    cache.delete(("team", "mine"))
    assert found() == ("", "generated")
    assert cache.of_owner("other", OWNER) is None


def test_a_workload_takes_no_more_memory_than_its_json_has_bytes() -> None:
    leaves = [
        {"name": f"leaf-{number}", "schedulingPolicy": {"gang": {"minCount": number}}}
        for number in range(4096)
    ]
    meta = {"name": "w", "namespace": "team", "uid": "u", "resourceVersion": "1"}
    body = msgspec.json.encode({"metadata": meta, "spec": {"podGroupTemplates": leaves}})
    page = body + b" " * len(body)  # an object arrives in a message with others

    tracemalloc.start()
    try:
        kept = [decode_workload(bytes(bytearray(page))) for _ in range(4)]
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert held < 1.1 * len(kept) * len(body)
    assert msgspec.json.decode(kept[0].spec)["podGroupTemplates"] == leaves
