"""A generated trace: arrivals, sizes and durations from distributions and a seed."""

from __future__ import annotations

import math
import random
import re
from collections import deque
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Literal

import msgspec
import yaml
from msgspec import Meta

from analysis.lab.amounts import seconds_of
from analysis.lab.errors import LabError, input_of
from analysis.lab.trace import MOST_PODS, Job, Topology, checked
from scheduler.decoding.requests import amount

_Weight = Annotated[float, Meta(gt=0)]
_Count = Annotated[int, Meta(ge=1, le=100_000)]


class JobKind(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Jobs of one kind, `weight` of all; `median` and `sigma` are of the lognormal duration.

    `pods` has the sizes of gangs and `burst` the numbers of jobs that arrive together, by weight.
    """

    requests: dict[str, str | int]
    median: str | float
    weight: _Weight = 1.0
    pods: dict[str, _Weight] = msgspec.field(default_factory=lambda: {"1": 1.0})
    burst: dict[str, _Weight] = {}
    replicas: _Count = 1
    sigma: Annotated[float, Meta(ge=0, le=5)] = 1.0
    longest: str | float = "7d"
    priority: int = 0
    topology: Topology = ""
    key: str = ""
    topology_from: _Count = 2
    grace: str | float = "30s"
    checkpoint: str | float = 0
    disruption: Literal["all", "single"] = "all"


class Recipe(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A number of `jobs` within `span`, as a Poisson process with a daily cycle.

    Its rate swings by `daily` (0 to 1) each day.
    """

    jobs: Annotated[int, Meta(ge=1, le=1_000_000)]
    span: str | float
    kinds: Annotated[dict[str, JobKind], Meta(min_length=1)]
    daily: Annotated[float, Meta(ge=0, le=1)] = 0.0
    namespaces: Annotated[int, Meta(ge=1, le=10_000)] = 1


def read_recipe(file: Path) -> Recipe:
    """Read the recipe of a YAML file. Raises LabError, which names the field."""
    with input_of(str(file)):
        return msgspec.convert(yaml.safe_load(file.read_text("utf-8")), Recipe)


def generate(recipe: Recipe, seed: int) -> list[Job]:
    """Return the jobs by arrival; equal recipes and seeds give equal jobs. Raises LabError."""
    return checked(_jobs(recipe, random.Random(seed)), "the recipe")  # noqa: S311


def _jobs(recipe: Recipe, chance: random.Random) -> Iterator[Job]:
    kinds, names = list(recipe.kinds.values()), list(recipe.kinds)
    span = _seconds(recipe.span, "span")
    arrivals = sorted(_arrival(span, recipe.daily, chance) for _ in range(recipe.jobs))
    weights = [kind.weight for kind in kinds]
    left = deque(arrivals)
    while left:
        (index,) = chance.choices(range(len(kinds)), weights)
        kind, namespace = kinds[index], f"team-{chance.randrange(recipe.namespaces)}"
        together = _drawn(kind.burst, "burst", chance) if kind.burst else 1
        arrival = left[0]
        for _ in range(min(together, len(left))):
            # A burst uses up the arrivals of its other jobs, so that the number of jobs stays the
            # same.
            left.popleft()
            number = recipe.jobs - len(left) - 1
            yield _job(kind, f"{names[index]}-{number:06}", namespace, arrival, chance)


def _arrival(span: float, daily: float, chance: random.Random) -> float:
    """Draw one arrival. With a given number, arrivals of a Poisson process are independent."""
    while True:
        time = chance.uniform(0, span)
        rate = 1 + daily * math.sin(2 * math.pi * time / 86400 - math.pi / 2)
        # Thinning: a draw is accepted with a probability in proportion to the rate at its time.
        if chance.uniform(0, 1 + daily) <= rate:
            return round(time, 3)


def _job(kind: JobKind, name: str, namespace: str, arrival: float, chance: random.Random) -> Job:
    pods = _drawn(kind.pods, "pods", chance)
    if pods * kind.replicas > MOST_PODS:
        raise LabError(f"the recipe: pods times replicas must be at most {MOST_PODS}")
    median, longest = _seconds(kind.median, "median"), _seconds(kind.longest, "longest")
    duration = min(median * math.exp(chance.gauss(0, kind.sigma)), longest)
    confined = kind.topology if pods * kind.replicas >= kind.topology_from else ""
    return Job(
        name=name,
        namespace=namespace,
        arrival=arrival,
        duration=round(duration, 3),
        pods=pods,
        replicas=kind.replicas,
        requests=_requests(kind),
        priority=kind.priority,
        topology=confined,
        key=kind.key if confined else "",
        grace=_seconds(kind.grace, "grace"),
        checkpoint=_seconds(kind.checkpoint, "checkpoint"),
        disruption=kind.disruption,
    )


def _drawn(weights: Mapping[str, float], field: str, chance: random.Random) -> int:
    """Draw one of the numbers, by weight. Raises LabError if one is invalid."""
    if not weights or not all(re.fullmatch("[1-9][0-9]{0,5}", number) for number in weights):
        raise LabError(f"the recipe: {field}: must map numbers to weights, as {{'1': 3, '8': 1}}")
    (number,) = chance.choices([int(number) for number in weights], list(weights.values()))
    return number


def _requests(kind: JobKind) -> tuple[tuple[str, int], ...]:
    with input_of("the recipe: requests"):
        found = ((name, amount(name, quantity)) for name, quantity in kind.requests.items())
        return tuple(sorted(each for each in found if each[1]))


def _seconds(written: str | float, field: str) -> float:
    with input_of(f"the recipe: {field}"):
        return seconds_of(written)
