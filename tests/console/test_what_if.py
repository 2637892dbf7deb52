"""The what-if process: results, reasons, and limits."""

import asyncio
import io
import resource
import sys
from collections.abc import AsyncIterator
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from analysis.fit.messages import FitRequest, FitWorkload
from analysis.what_if import worker
from analysis.what_if.messages import (
    MEMORY,
    AddNodes,
    Change,
    FitQuestion,
    WhatIfAnswer,
    WhatIfRequest,
)
from analysis.what_if.worker import memory_limit
from console import what_if
from console.base.protocols import RefusedError, Viewer
from console.state.state import ClusterState, LiveCluster
from console.what_if import WAITING, WhatIfProcess
from kube.base.clock import SystemClock
from kube.concurrency.stepwise import Stepwise
from tests.analysis.what_if.test_what_if import cluster, gang, job

ADMIN = Viewer("admin", "one")

pytestmark = pytest.mark.timeout(120)


def asker(
    seconds: float = 60.0, memory: int = MEMORY, of: ClusterState | None = None
) -> WhatIfProcess:
    return WhatIfProcess(
        cast("LiveCluster", of or small()),
        seconds=seconds,
        memory=memory,
        stepwise=Stepwise(_Hurried()),
    )


class _Hurried(SystemClock):
    """A clock on which every deadline has passed."""

    def __init__(self) -> None:
        super().__init__()
        self.monotonic = count(1.0).__next__


def small() -> ClusterState:
    builder = cluster(racks=1, nodes=1)
    gang(builder, "g", 8)
    return ClusterState(builder.state)


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Run questions in this process, because a new one takes longer to load than they take."""

    async def run(question: bytes, _seconds: float) -> tuple[int | None, bytes]:
        said = io.BytesIO()
        with monkeypatch.context() as patched:
            patched.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(question)))
            patched.setattr(sys, "stdout", SimpleNamespace(buffer=said))
            patched.setattr(resource, "setrlimit", lambda *_: None)
            return worker.main(), said.getvalue()

    monkeypatch.setattr(what_if, "_run", run)


async def test_others_run_while_the_cluster_is_written_and_change_it_afterwards(here: None) -> None:
    of = small()
    ask = asyncio.create_task(asker(of=of)(WhatIfRequest(), ADMIN))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    changed = asyncio.create_task(remove_all_pods(of))
    seen = [bool(of.state.pods) async for _ in steps_of(of)]
    await changed

    assert len(seen) > 5
    assert all(seen), "what was being read has changed"
    assert [each.id for each in (await ask).waiting] == ["ns/PodGroup/g"]
    assert not of.state.pods


async def steps_of(of: ClusterState) -> AsyncIterator[None]:
    """Yield once for each step while the cluster is frozen."""
    while of.freeze.is_active:
        yield
        await asyncio.sleep(0)


async def remove_all_pods(of: ClusterState) -> None:
    await of.settled()
    for uid in list(of.state.pods):
        of.state.remove_pod(uid)


async def test_the_process_answers_and_the_cluster_stays_as_it_is() -> None:
    of = small()
    ask = asker(of=of)
    more = WhatIfRequest(changes=[Change(add_nodes=AddNodes(like="r1-1", count=1))])
    assert [each.id for each in (await ask(more, ADMIN)).placements] == ["ns/PodGroup/g"]
    assert list(of.state.nodes.row_of) == ["r1-1"]


async def test_the_process_decides_each_workload_on_a_copy_of_its_own() -> None:
    claim = {
        "apiVersion": "v1", "kind": "PersistentVolumeClaim",
        "metadata": {"name": "c", "namespace": "ns"}, "spec": {"storageClassName": "none"},
    }  # fmt: skip
    needs = job("needs", 1)
    needs["spec"]["template"]["spec"]["volumes"] = [
        {"name": "v", "persistentVolumeClaim": {"claimName": "c"}}
    ]
    first, second = (job(name, 4, **{"gang-mode": "Gang"}) for name in ("a", "b"))
    objects = ([first], [second], [needs, claim])
    request = FitRequest(workloads=[FitWorkload(objects=each) for each in objects])
    viewer = Viewer("anna", "one", namespaces=frozenset({"ns"}), nodes=False)
    fit = asker().fit

    found = await fit(FitQuestion(request, [0, 2], {}, 0.0), viewer)
    assert [each.fits for each in found] == ["yes", "no"]
    assert "unbound immediate PersistentVolumeClaims" in found[1].roots[0].sentence
    request.together = True
    found = await fit(FitQuestion(request, [0, 1, 2], {}, 0.0), viewer)
    assert [each.fits for each in found] == ["yes", "no", "no"]

    wrong = FitRequest(workloads=[FitWorkload(objects=[{"kind": "Job", "metadata": {}}])])
    with pytest.raises(RefusedError) as raised:
        await fit(FitQuestion(wrong, [0], {}, 0.0), viewer)
    assert (raised.value.status, raised.value.message[:13]) == (422, "workloads[0]:")


async def test_what_cannot_be_tried_is_told(here: None) -> None:
    with pytest.raises(RefusedError, match='Not found: "none"') as raised:
        await asker()(WhatIfRequest(changes=[Change(remove_node="none")]), ADMIN)
    assert raised.value.status == 400


async def test_a_process_that_takes_too_long_is_ended() -> None:
    with pytest.raises(RefusedError, match="No result within"):
        await asker(seconds=0.01)(WhatIfRequest(), ADMIN)


async def test_manifests_that_need_all_memory_cost_the_console_nothing() -> None:
    """Every level is ten times the one below: a terabyte when expanded."""
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    for level in range(1, 12):
        parts = ", ".join(f"*a{level - 1}" for _ in range(10))
        lines.append(f"a{level}: &a{level} [{parts}]")
    lines += ["kind: Job", "metadata: {name: bomb, annotations: {a: b}}", "spec:"]
    lines += ["  parallelism: 3", "  template: {spec: {containers: *a11}}"]
    ask = asker(memory=1 << 27)  # the default limit takes half a minute to fill
    with pytest.raises(RefusedError, match="too much memory"):
        await ask(WhatIfRequest(manifests="\n".join(lines)), ADMIN)


@pytest.mark.parametrize(
    "viewer",
    [
        Viewer("a", "s", namespaces=frozenset({"ns"})),
        Viewer("a", "s", nodes=False),
    ],
)
async def test_who_may_not_see_everything_may_not_ask(viewer: Viewer) -> None:
    with pytest.raises(RefusedError) as raised:
        await asker()(WhatIfRequest(), viewer)
    assert raised.value.status == 403


async def test_only_so_many_wait_for_their_turn() -> None:
    ask = asker(seconds=0.01)  # the result does not matter here
    viewers = [Viewer("admin", str(number)) for number in range(WAITING + 3)]
    asked = [asyncio.create_task(ask(WhatIfRequest(), viewer)) for viewer in viewers]
    answers = await asyncio.gather(*asked, return_exceptions=True)
    refused = [each for each in answers if isinstance(each, RefusedError)]
    assert sorted(each.status for each in refused) == [400] * (WAITING + 1) + [429, 429]


async def test_each_viewer_asks_one_question_at_a_time(here: None) -> None:
    ask = asker()
    asked = [asyncio.create_task(ask(WhatIfRequest(), ADMIN)) for _ in range(2)]
    answers = await asyncio.gather(*asked, return_exceptions=True)
    assert [type(each) for each in answers] == [WhatIfAnswer, RefusedError]


@pytest.mark.parametrize(
    ("said", "limit"), [("max", 4 << 30), (str(2 << 30), 1 << 30), (str(64 << 30), 4 << 30)]
)
def test_the_process_has_half_of_its_container_at_most(
    tmp_path: Path, said: str, limit: int
) -> None:
    (tmp_path / "memory.max").write_text(f"{said}\n")
    assert memory_limit(tmp_path / "memory.max") == limit
    assert memory_limit(tmp_path / "none") == 4 << 30
