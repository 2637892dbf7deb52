"""Jobs and pods in their state before the removal of Muster."""

from typing import Any

from tests.support.builders import make_pod
from tests.support.owners import JobBuilder, make_job, make_jobset

Json = dict[str, Any]


def controlled(obj: Json, kind: str = "JobSet", name: str = "set", uid: str = "set-uid") -> Json:
    reference = {"apiVersion": "x/v1", "kind": kind, "name": name, "uid": uid, "controller": True}
    obj["metadata"] |= {"ownerReferences": [reference], "namespace": "team", "uid": "uid"}
    obj["metadata"].setdefault("name", "train")
    return obj


def stored(job: JobBuilder, **status: Any) -> Json:
    obj = job.build() | {"status": status}
    obj["metadata"] |= {"namespace": "team", "uid": "uid", "name": "train"}
    return obj


def gang() -> JobBuilder:
    return make_job("train").asks(gang_mode="Gang").managed("pg-train").pods(4)


def jobset(template: JobBuilder) -> Json:
    obj = make_jobset("set").replicated_job("a", 1, template).build()
    obj["metadata"] |= {"uid": "set-uid"}
    return obj


def child(**status: Any) -> Json:
    return controlled(stored(gang().of_jobset("set", "a", 0), **status))


RUNNING = make_pod("train-0", "team").bound_to("n1").build()
WAITING = make_pod("train-0", "team").build()
