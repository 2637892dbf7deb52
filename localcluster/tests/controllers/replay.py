"""Replay of a recorded flow of the real controllers against ours, on virtual time."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

import e2e.kubernetes.controllers
from e2e.kubernetes.controllers.normalise import Normaliser
from localcluster.base.errors import StatusError
from localcluster.base.hooks import DeleteOptions
from localcluster.base.store import Event
from localcluster.controllers.kubelet import Phase
from localcluster.tests.controllers.cluster import SimulatedCluster

Obj = dict[str, Any]

TRACES = Path(e2e.kubernetes.controllers.__file__).parent / "data"
KINDS = ("JobSet", "Job", "Pod", "Service", "Event")
NODE = "trace-node"
# Fields that the API server sets and that do not depend on a controller.
FOREIGN_STATUS = ("hostIP", "hostIPs", "loadBalancer")


def load(flow: str) -> Obj:
    trace: Obj = yaml.safe_load((TRACES / f"{flow}.yaml").read_text())
    return trace


class Replay:
    """Replay that carries out a trace's steps and records results in the recorder's format."""

    def __init__(self, cluster: SimulatedCluster, namespace: str) -> None:
        self._cluster = cluster
        self._api = cluster.api
        self._namespace = namespace
        self._normal = Normaliser()
        self._seen: list[Event] = []
        self._live: dict[tuple[str, str], Obj] = {}
        self._conditions = Conditions()
        self._owner: tuple[str, str] = ("", "")
        for kind in KINDS:
            self._api.store.collection(cluster.info(kind).collection).listeners.append(
                self._seen.append
            )

    async def step(self, wanted: Obj) -> Obj:
        """Carry out the step; return its results as `created`, `deleted`, `conditions`..."""
        refusal = None
        try:
            await self._act(wanted["action"], wanted.get("input") or {})
        except StatusError as error:
            refusal = self._normal.value(error.to_json())
        await self._cluster.settle()
        if time_taken := _time_taken(wanted):
            await self._cluster.pass_time(time_taken)
        outcome = self._outcome()
        return {**outcome, "refused": refusal} if refusal else outcome

    async def _act(self, action: str, given: Obj) -> None:
        word, *rest = action.split(" ")
        match word:
            case "create":
                kind, name = given["kind"], given["metadata"]["name"]
                await self._api.create(self._cluster.info(kind), given, self._namespace)
                self._owner = kind, name
            case "bind":
                await self._bind()
            case "finish":
                selector = "" if rest[1] == "all" else rest[1]
                phase: Phase = "Succeeded" if rest[3] == "Succeeded" else "Failed"
                await self._cluster.manager.nodes.finish(self._namespace, selector, phase)
            case "suspend" | "resume" | "set" | "change":
                kind, name = self._owner
                await self._api.patch(self._cluster.info(kind), name, given, self._namespace)
            case "delete,":
                await self._delete(*self._owner, propagation=rest[1])
            case "delete":
                for name in self._names("Pod"):
                    await self._delete("Pod", name, propagation="Background")
            case _:
                assert word == "wait", action

    async def _bind(self) -> None:
        for name in self._names("Pod"):
            await self._cluster.bind(self._namespace, name, NODE)

    async def _delete(self, kind: str, name: str, *, propagation: Any) -> None:
        options = DeleteOptions(propagation_policy=propagation)
        await self._api.delete(self._cluster.info(kind), name, self._namespace, options=options)

    def _names(self, kind: str) -> list[str]:
        page = self._api.list(self._cluster.info(kind), self._namespace)
        return [stored.obj["metadata"]["name"] for stored in page.items]

    # What happened

    def _outcome(self) -> Obj:
        seen, self._seen[:] = list(self._seen), []
        outcome: Obj = {"created": [], "deleted": [], "events": []}
        for event in seen:
            obj = event.value.obj
            if obj["metadata"].get("namespace") != self._namespace:
                continue
            if obj["kind"] == "Event":
                outcome["events"].append(self._event(obj))
            else:
                self._note(event, outcome)
        outcome["conditions"] = self._conditions.take()
        outcome["final"] = {}
        for obj in self._live.values():
            found = self._final(obj)
            outcome["final"][found["object"]] = found
        return outcome

    def _note(self, event: Event, outcome: Obj) -> None:
        obj = event.value.obj
        key = obj["kind"], obj["metadata"]["name"]
        if event.type == "ADDED":
            self._normal.learn(obj)
            self._live[key] = obj
            outcome["created"].append(self._normal.value(obj))
        elif event.type == "DELETED":
            del self._live[key]
            outcome["deleted"].append(f"{key[0]}/{self._normal.text(key[1])}")
        else:
            self._live[key] = obj
        if obj["kind"] in ("Job", "JobSet") and event.type != "DELETED":
            status = self._normal.value(obj.get("status", {}))
            self._conditions.add("/".join(key), status)

    def _event(self, event: Obj) -> Obj:
        about = event["involvedObject"]
        return {
            "object": f"{about['kind']}/{self._normal.text(about['name'])}",
            "type": event["type"],
            "reason": event["reason"],
            "message": self._normal.text(event["message"]),
        }

    def _final(self, obj: Obj) -> Obj:
        meta = obj["metadata"]
        final: Obj = {
            "object": f"{obj['kind']}/{self._normal.text(meta['name'])}",
            "finalizers": meta.get("finalizers", []),
            "status": comparable_status(self._normal.value(obj.get("status", {}))),
        }
        if obj["kind"] == "Job":
            final["suspend"] = obj["spec"].get("suspend")
        return final


def _time_taken(step: Obj) -> float:
    """Return the seconds of a recorded step that its events needed."""
    if any(event["reason"] == "DeadlineExceeded" for event in step.get("events", [])):
        return 6
    makes_pods = any(one["kind"] == "Pod" for one in step.get("created", []))
    failed = step["action"].startswith("finish") and step["action"].endswith("as Failed")
    after_failure = failed or step["action"] == "delete all pods"
    return 15 if makes_pods and after_failure else 0


class Conditions:
    """The successive conditions of objects, each recorded when it changes."""

    def __init__(self) -> None:
        self._last: dict[str, list[Obj]] = {}
        self._noted: dict[str, list[list[Obj]]] = {}

    def add(self, name: str, status: Obj) -> None:
        conditions = sorted(
            (
                {part: one.get(part) for part in ("type", "status", "reason", "message")}
                for one in status.get("conditions", [])
            ),
            key=lambda one: str(one["type"]),
        )
        if conditions != self._last.get(name, []):
            self._last[name] = conditions
            self._noted.setdefault(name, []).append(conditions)

    def take(self) -> dict[str, list[list[Obj]]]:
        noted, self._noted = self._noted, {}
        return noted


def comparable_status(status: Obj) -> Obj:
    return {name: value for name, value in status.items() if name not in FOREIGN_STATUS}


def expected(step: Obj, conditions: Conditions) -> Obj:
    """Return the recorded step in the format of a replayed one."""
    for transition in step.get("transitions", []):
        conditions.add(transition["object"], transition["status"])
    final = {
        one["object"]: {
            "object": one["object"],
            "finalizers": one["metadata"].get("finalizers", []),
            "status": comparable_status(one["status"]),
            **({"suspend": one["suspend"]} if "suspend" in one else {}),
        }
        for one in step.get("final", [])
    }
    return {
        "created": step.get("created", []),
        "deleted": step.get("deleted", []),
        "conditions": conditions.take(),
        "events": step.get("events", []),
        "final": final,
        **({"refused": step["refused"]} if "refused" in step else {}),
    }


def differences(found: Any, want: Any, path: str = "") -> Iterator[str]:
    """Yield every difference between two JSON values."""
    if isinstance(found, dict) and isinstance(want, dict):
        for name in sorted(found.keys() | want.keys()):
            yield from differences(found.get(name), want.get(name), f"{path}.{name}")
    elif isinstance(found, list) and isinstance(want, list) and len(found) == len(want):
        for place, (one, other) in enumerate(zip(found, want, strict=True)):
            yield from differences(one, other, f"{path}[{place}]")
    elif found != want:
        yield f"{path}: found {found!r}, want {want!r}"
