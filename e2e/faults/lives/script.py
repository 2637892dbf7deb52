"""The script of one life: the owner, the user's steps, and the end of each pod."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from e2e.harness.objects import Json
from kube.client.resources import JOBS, JOBSETS, Resource

Mode = Literal[
    "Plain", "Basic", "Gang", "Own Gang", "Own ReplicatedGang", "Composite", "Workload", "Delegated"
]
NAME = "x"
"""Name of every owner: many lives reuse the same name."""
WORKLOAD_NAME = "theirs"
TEMPLATE = "workers"


@dataclass(frozen=True, slots=True)
class Step:
    """One step. If `quiet`, the namespace must settle before it."""

    what: str
    quiet: bool = True
    given: Mapping[str, Any] = field(default_factory=dict)

    def line(self) -> str:
        when = "when quiet:" if self.quiet else "at once:"
        said = " ".join(f"{key}={json.dumps(value)}" for key, value in self.given.items())
        return " ".join(filter(None, (when, self.what, said)))


@dataclass(frozen=True, slots=True)
class Life:
    """A life; `room` is the initial capacity in pods, which the script may extend.

    `spec` is the owner's.
    """

    seed: int
    kind: Literal["Job", "JobSet"]
    mode: Mode
    spec: Json
    annotations: Mapping[str, str]
    min_count: int | None
    """The user's minCount: by annotation, or in a Workload of their own."""
    room: int
    steps: tuple[Step, ...]

    @property
    def resource(self) -> Resource:
        return JOBS if self.kind == "Job" else JOBSETS

    @property
    def title(self) -> str:
        return f"life {self.seed}: {self.kind} {self.mode}"

    def without(self, dropped: frozenset[int]) -> "Life":
        """Return the same life without the steps of these numbers."""
        kept = (step for number, step in enumerate(self.steps) if number not in dropped)
        return replace(self, steps=tuple(kept))

    def lines(self) -> Iterator[str]:
        asked = "" if self.min_count is None else f", min-count {self.min_count}"
        yield f"{self.title}{asked}, room for {self.room}"
        yield f"  spec {json.dumps(brief(self.spec))}"
        for number, step in enumerate(self.steps):
            yield f"  {number}. {step.line()}"


def brief(spec: Json) -> Json:
    """Return the spec without the parts that all lives share."""
    short = {key: value for key, value in spec.items() if key != "template"}
    if "replicatedJobs" in short:
        short["replicatedJobs"] = [
            {key: value for key, value in role.items() if key != "template"}
            | brief(role["template"]["spec"])
            for role in short["replicatedJobs"]
        ]
    return short
