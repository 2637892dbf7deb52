"""Manifests of any content: an answer, or a refusal that names the workload, and nothing else."""

import copy
import random
import sys
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from analysis.fit.created import created_by
from analysis.fit.fit import MOST_OBJECTS, answer_live, answers, entry_of, fit
from analysis.fit.messages import FitRequest, FitResult, FitWorkload
from analysis.simulate.deciding import Setup
from analysis.simulate.documents import documents_in
from api.features import FeatureGates
from kube.base.errors import ConfigError
from scheduler.core.state.hypothetical import NeedsCopyError
from scheduler.core.values.model import NodeInfo
from scheduler.core.values.search_budget import nothing
from tests.analysis.fit.test_fit import copied, settle
from tests.analysis.what_if.test_what_if import cluster, gang
from tests.scheduler.fingerprint import fingerprint
from tests.scheduler.state_builder import StateBuilder
from tools.testing.effort import count

Json = dict[str, Any]
ALL_ON = FeatureGates.of({"ExpectedPods": True})
EXAMPLES = Path(__file__).parents[3] / "examples"
FILES = sorted(EXAMPLES.glob("*.yaml"))
JUNK: tuple[Any, ...] = (
    None, True, -1, 0, 5, 1.5, 2**40, "", "x", "-1", "1e400", "a/b", "\u202e", "x" * 300,
    [], [None], ["x"], [[]], [{}], {}, {"x": None}, {"": ""}, {"name": 5}, {"matchLabels": []},
)  # fmt: skip


def site() -> StateBuilder:
    """Return two racks of two large nodes with a gang."""
    builder = cluster(cpu=64)
    amounts = {"cpu": 64_000, "memory": 1 << 38, "pods": 110, "nvidia.com/gpu": 8}
    for name in ("gpu-1", "gpu-2"):
        builder.state.set_node(NodeInfo(name, amounts, {"rack": "r3"}))
    gang(builder, "runs", 4, on="r1-1")
    return builder


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_each_example_has_the_same_answer_on_the_state_and_on_a_copy(file: Path) -> None:
    builder = site()
    before = settle(builder.state)
    workload = FitWorkload(objects=list(documents_in([file])))
    setup = Setup(gates=ALL_ON)

    def answer(*, on_copy: bool) -> list[FitResult] | str:
        entry = entry_of(workload, "workloads[0]", nothing)
        try:
            if on_copy:
                state = copied(builder.state)
                return answers(state, [entry], "default", setup, None, most=MOST_OBJECTS)
            request = FitRequest(workloads=[workload])
            state, again = builder.state, partial(copied, builder.state)
            return fit(state, request, setup, None, again).workloads
        except ConfigError as error:
            return str(error)

    assert answer(on_copy=False) == answer(on_copy=True)
    assert fingerprint(builder.state) == before


def places(value: Any, way: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the way to each value of a document."""
    inner: Any = ()
    if isinstance(value, dict):
        inner = value.items()
    elif isinstance(value, list):
        inner = enumerate(value)
    for key, each in inner:
        yield (*way, key)
        yield from places(each, (*way, key))


def broken(dice: random.Random, document: Json) -> Json:
    """Return the document with one to three values replaced or removed."""
    made = copy.deepcopy(document)
    for _ in range(dice.randint(1, 3)):
        way = dice.choice(list(places(made)))
        holder: Any = made
        for key in way[:-1]:
            holder = holder[key]
        if dice.random() < 0.2 and isinstance(holder, dict):
            del holder[way[-1]]
        else:
            holder[way[-1]] = copy.deepcopy(dice.choice(JUNK))
    return made


def test_whatever_is_asked_is_answered_or_refused() -> None:
    seed = str(time.time_ns())
    sys.stdout.write(f"seed {seed}\n")
    dice = random.Random(seed)
    documents = [list(documents_in([file])) for file in FILES]
    builder = site()
    before = settle(builder.state)
    answered = 0
    for _ in range(count(300, 20_000)):
        made = [broken(dice, each) for each in dice.choice(documents)]
        try:
            entry = entry_of(FitWorkload(objects=made), "workloads[0]", nothing)
            sorted(created_by([entry], "ns"))
            answer_live(builder.state, [entry], "ns", Setup(), None)
            answered += 1
        except (ConfigError, NeedsCopyError):
            pass
        except Exception as error:
            raise AssertionError(made) from error
    assert answered
    assert fingerprint(builder.state) == before
