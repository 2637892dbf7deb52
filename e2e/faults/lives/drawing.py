"""Generator of a life from its number: the owner, the user's steps, and the ends of its pods.

It draws only what the API server and JobSet v0.11.0 admit. Pods are few, and few of them fail: a
Job creates the next one only after ten seconds, then twenty, then forty.
"""

from random import Random
from typing import Any, Literal

from api.constants import ANNOTATION_GANG_MODE, ANNOTATION_MIN_COUNT
from e2e.faults.lives.script import Life, Mode, Step
from e2e.harness.objects import Json

_MODES: dict[str, dict[Mode, int]] = {
    "Job": {"Gang": 10, "Workload": 4, "Basic": 2, "Delegated": 3},
    "JobSet": {
        "Gang": 4,
        "Own Gang": 4,
        "Own ReplicatedGang": 3,
        "Composite": 4,
        "Workload": 3,
    },
}
_POLICIES = ("Background", "Background", "Foreground", "Orphan")
_THEIRS = ("Workload", "Delegated")
_PROCESSES = ("controller", "scheduler")
_SHARES = (0.0, 0.5, 1.0)
"""Shares of all members for a changed min-count; 0 means one."""
_STEPS = {
    "end": 6.0,
    "remove": 3,
    "suspend": 1,
    "scale": 3,
    "min-count": 2,
    "room": 2,
    "again": 2,
    "kill": 0.4,
}
_LARGEST = 8
"""Maximum number of pods of a life at a time."""


def draw(seed: int) -> Life:
    """Return the life of this number, always the same."""
    return _Drawing(Random(f"life {seed}"), seed).life()


class _Drawing:
    def __init__(self, chance: Random, seed: int) -> None:
        self._chance = chance
        self._seed = seed
        self._failures = 2

    def _says(self, share: float) -> bool:
        return self._chance.random() < share

    def life(self) -> Life:
        chance = self._chance
        kinds: tuple[Literal["Job", "JobSet"], ...] = ("Job", "JobSet")
        kind = chance.choice(kinds)
        weights = _MODES[kind]
        (mode,) = chance.choices(list(weights), list(weights.values()))
        spec = self._job() if kind == "Job" else self._jobset(mode)
        size = members(kind, spec)
        if self._says(0.07):
            spec["suspend"] = True
        if self._says(0.12):
            spec["ttlSecondsAfterFinished"] = 1
        steps = self._steps(kind, mode, spec)
        room = self._room(size, steps)
        count = self._min_count(kind, mode, size)
        return Life(self._seed, kind, mode, spec, _annotations(mode, count), count, room, steps)

    def _room(self, size: int, steps: tuple[Step, ...]) -> int:
        """Draw the capacity: enough for all or too little, often for the size after growth."""
        chance = self._chance
        larger = max((step.given.get("parallelism", 0) for step in steps), default=0)
        if larger > size and self._says(0.6):
            return chance.randint(min(size + 1, larger - 1), larger - 1)
        if any("share" in step.given for step in steps) and self._says(0.3):
            return chance.randint(0, size)
        return size + chance.randint(1, 4) if self._says(0.6) else chance.randint(0, max(1, size))

    def _min_count(self, kind: str, mode: Mode, size: int) -> int | None:
        if mode in _THEIRS:
            return self._chance.randint(1, max(1, size))
        if mode == "Gang" and size > 1 and self._says(0.25):
            return self._chance.randint(1, size)
        return None

    def _job(self) -> Json:
        chance = self._chance
        pods = 0 if self._says(0.06) else chance.randint(1, 5)
        completions = chance.choice((pods, pods, pods, pods + 1, pods + 3, max(1, pods - 1), None))
        spec: Json = {"parallelism": pods, "backoffLimit": chance.choice((0, 1, 6, 6))}
        if completions is not None:
            spec["completions"] = max(1, completions)
            if self._says(0.5):
                spec["completionMode"] = "Indexed"
                self._indexed(spec)
        self._failing(spec)
        return spec

    def _indexed(self, spec: Json) -> None:
        if self._says(0.4):
            spec["backoffLimitPerIndex"] = self._chance.choice((0, 0, 1))
            spec.pop("backoffLimit")
            if self._says(0.4):
                spec["maxFailedIndexes"] = self._chance.randint(0, spec["completions"])
        if self._says(0.15):
            rule = self._chance.choice(({"succeededIndexes": "0"}, {"succeededCount": 1}))
            spec["successPolicy"] = {"rules": [rule]}

    def _failing(self, spec: Json) -> None:
        if self._says(0.12):
            actions = ["FailJob", "Ignore", "Count"]
            if "backoffLimitPerIndex" in spec:
                actions.append("FailIndex")
            codes = {"operator": "In", "values": [1]}
            rule = {"action": self._chance.choice(actions), "onExitCodes": codes}
            spec["podFailurePolicy"] = {"rules": [rule]}
        elif self._says(0.15):
            spec["podReplacementPolicy"] = "Failed"

    def _jobset(self, mode: Mode) -> Json:
        chance = self._chance
        roles = [self._role(name) for name in ("a", "b")[: chance.randint(1, 2)]]
        spec: Json = {"replicatedJobs": roles}
        if self._says(0.3):
            spec["failurePolicy"] = {"maxRestarts": chance.randint(1, 2)}
        if mode.startswith("Own") and len(roles) > 1:
            how = chance.choice(("", "", "Ready", "Complete", "InOrder"))
            if how == "InOrder":
                spec["startupPolicy"] = {"startupPolicyOrder": "InOrder"}
            elif how:
                roles[1]["dependsOn"] = [{"name": "a", "status": how}]
        elif self._says(0.15):
            # A replicatedJob without Jobs never succeeds, and neither does its JobSet.
            able = [role for role in roles if role["replicas"]] or roles
            target = [chance.choice(able)["name"]]
            operator = chance.choice(("All", "Any"))
            spec["successPolicy"] = {"operator": operator, "targetReplicatedJobs": target}
        if mode.startswith("Own"):
            for role in roles:
                notes = {ANNOTATION_GANG_MODE: mode.removeprefix("Own ")}
                role["template"]["metadata"] = {"annotations": notes}
        return spec

    def _role(self, name: str) -> Json:
        chance = self._chance
        pods = 0 if self._says(0.05) else chance.randint(1, 3)
        completions = pods + chance.choice((0, 0, 0, 0, 1))
        job: Json = {"parallelism": pods, "completions": max(1, completions)}
        job["backoffLimit"] = chance.choice((0, 0, 6))
        replicas = 0 if self._says(0.06) else chance.randint(1, 2)
        return {"name": name, "replicas": replicas, "template": {"spec": job}}

    # Steps

    def _steps(self, kind: str, mode: Mode, spec: Json) -> tuple[Step, ...]:
        steps: list[Step] = []
        if kind == "Job" and self._says(0.2):
            least = max(4, spec.get("maxFailedIndexes", 0))
            given = {"parallelism": self._chance.randint(least, max(least, _LARGEST))}
            steps.append(Step("scale", self._says(0.8), given))
        for _ in range(self._chance.randint(1, 5)):
            steps.extend(self._step(kind, mode, spec))
        policy = self._chance.choice(_POLICIES)
        return (*steps, Step("delete", True, {"propagation": policy}))

    def _step(self, kind: str, mode: Mode, spec: Json) -> list[Step]:
        chance, quiet = self._chance, self._says(0.65)
        (what,) = chance.choices(list(_STEPS), list(_STEPS.values()))
        match what:
            case "end":
                return self._ends(quiet=quiet)
            case "suspend":
                return [Step(what, quiet), Step("resume", self._says(0.5))]
            case "scale":
                return self._scale(kind, mode, spec, quiet=quiet)
            case "min-count" if mode in _THEIRS or (mode, kind) == ("Gang", "Job"):
                return [Step(what, quiet, {"share": chance.choice(_SHARES)})]
            case "remove":
                return [Step(what, quiet, self._remove(spec))]
            case "room":
                return [Step(what, quiet, {"pods": chance.randint(1, 3)})]
            case "again":
                # The Job controller remembers by name how many pods it was creating, and creates
                # none for the next Job of that name for 5 minutes, even with plain pods.
                share = {"share": chance.choice(_SHARES)} if mode in _THEIRS else {}
                return [Step(what, True, {"propagation": chance.choice(_POLICIES)} | share)]
            case "kill":
                return [Step(what, quiet, {"process": chance.choice(_PROCESSES)})]
        return []

    def _ends(self, *, quiet: bool) -> list[Step]:
        """Draw the end of pods, and the deletion of some succeeded ones by hand or by a cleaner."""
        end = Step("end", quiet, self._end())
        if end.given["phase"] == "Failed" or not self._says(0.4):
            return [end]
        given = {"count": self._chance.choice((1, 2)), "phase": "Succeeded"}
        return [end, Step("remove", True, given)]

    def _end(self) -> dict[str, Any]:
        fails = self._failures > 0 and self._says(0.4)
        count = self._chance.randint(1, 2) if fails else self._chance.choice((1, 1, 2, 4))
        if fails:
            self._failures -= 1
        return {"count": count, "phase": "Failed" if fails else "Succeeded"}

    def _remove(self, spec: Json) -> dict[str, Any]:
        phase = self._chance.choice(("Succeeded", "Succeeded", "Succeeded", "Running", "Pending"))
        if {"podReplacementPolicy", "podFailurePolicy"} & spec.keys():
            # The Job waits until such a pod has Failed, but simulated nodes delete it without that.
            phase = "Succeeded"
        if phase == "Running":
            if self._failures <= 0:
                phase = "Succeeded"
            self._failures -= 1
        return {"count": self._chance.choice((1, 1, 2)), "phase": phase}

    def _scale(self, kind: str, mode: Mode, spec: Json, *, quiet: bool) -> list[Step]:
        if kind == "Job":
            # A user's Workload with a minCount above the number of pods would wait forever.
            least = spec["parallelism"] if mode in _THEIRS else 0
            # The completions of an Indexed Job change with it, and must not be fewer than these.
            least = max(least, spec.get("maxFailedIndexes", 0))
            pods = self._chance.randint(least, max(least, _LARGEST))
            return [Step("scale", quiet, {"parallelism": pods})]
        if any(not role["replicas"] for role in spec["replicatedJobs"]) or mode == "Workload":
            return []
        role = self._chance.choice(spec["replicatedJobs"])
        given = {"role": role["name"], "replicas": self._chance.randint(1, 3)}
        return [Step("scale", quiet, given)]


def _annotations(mode: Mode, count: int | None) -> dict[str, str]:
    if mode in ("Plain", "Delegated") or mode.startswith("Own"):
        return {}
    notes: dict[str, str] = {ANNOTATION_GANG_MODE: "Gang" if mode == "Workload" else mode}
    if count is not None and mode == "Gang":
        notes[ANNOTATION_MIN_COUNT] = str(count)
    return notes


def members(kind: str, spec: Json) -> int:
    """Return the number of pods that run at a time."""
    if kind == "JobSet":
        return sum(
            role["replicas"] * members("Job", role["template"]["spec"])
            for role in spec["replicatedJobs"]
        )
    pods: int = spec["parallelism"]
    completions = spec.get("completions")
    return pods if completions is None else min(pods, completions)
