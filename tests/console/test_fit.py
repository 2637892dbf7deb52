"""`/api/fit` over HTTP: answers, rights, limits, and questions by which nothing else suffers."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from itertools import count
from typing import Any

import pytest

from analysis.fit.fit import MOST_LIVE_VALUES
from analysis.fit.messages import MOST_WORKLOADS, FitRequest, FitResult, FitWorkload
from analysis.simulate.documents import DEEPEST, MOST_VALUES
from analysis.what_if.messages import FitQuestion
from console import fit as console_fit
from console.base.protocols import Creation, RefusedError, Viewer
from console.fit import (
    AT_ONCE,
    MOST_CREATED,
    MOST_OF_USER,
    MOST_TEXT,
    PER_SECOND,
    FitLimits,
    LiveFit,
)
from console.serving.server import FIT_LIMIT
from kube.base.clock import SystemClock
from kube.concurrency.stepwise import Stepwise
from scheduler.core.state.hypothetical import HypotheticalState
from scheduler.core.state.state import State
from scheduler.core.values.run_protection import NO_PROTECTION
from tests.analysis.what_if.test_what_if import job
from tests.console.browser import Browser, NoProcess, Site, browser, site
from tests.console.cluster_builder import ALL, RACK, Builder
from tests.scheduler.fingerprint import fingerprint

Json = dict[str, Any]


def cluster() -> Builder:
    """Return four racks of two nodes of 4 cores; a gang of priority 0 has all of rack 1-1."""
    builder = Builder()
    builder.racks()
    builder.gang("low", 2, priority=0)
    for node in ("n-1-1-1", "n-1-1-2"):
        builder.pod("low", 4, node=node)
    builder.gang("waits", 99)
    builder.pods("waits", 99)
    builder.refresh()
    return builder


def settled(builder: Builder) -> State:
    """Return the state after all that is due anyway."""
    for _ in builder.state.catch_up():
        pass
    builder.state.units.refresh()
    # The time of each decision, which is no content of the state.
    builder.state.units.protection = NO_PROTECTION
    return builder.state


def gang(name: str = "new", pods: int = 3, cpu: str = "1", **more: Any) -> Json:
    """Return a Job whose pods start together."""
    return job(name, pods, cpu, **{"gang-mode": "Gang", **more})


def question(*workloads: Json | list[Json], **more: Any) -> Json:
    lists = (each if isinstance(each, list) else [each] for each in workloads)
    return {"workloads": [{"objects": objects} for objects in lists], **more}


@pytest.fixture
async def served() -> AsyncIterator[Site]:
    async with site(cluster()) as made:
        yield made


@pytest.fixture
async def page(served: Site) -> AsyncIterator[Browser]:
    async with browser(served) as made:
        yield made


async def answered(page: Browser, asked: Json) -> list[Json]:
    status, answer = await page.post("/api/fit", asked)
    assert status == 200, answer
    found: list[Json] = answer["workloads"]
    return found


async def test_what_fits_has_its_nodes_and_nothing_changes(served: Site, page: Browser) -> None:
    state = settled(served.cluster)
    before = fingerprint(state)

    (found,) = await answered(page, question(gang(pods=5)))

    (root,) = found["roots"]
    assert (found["fits"], root["fits"], root["pods"]) == ("yes", "now", 5)
    assert root["id"] == "ns/PodGroup/pg-job-new"
    assert sum(node["pods"] for node in root["nodes"]) == 5
    assert fingerprint(state) == before


async def test_domains_are_those_that_the_groups_name(page: Browser) -> None:
    (found,) = await answered(page, question(gang(pods=8, topology=RACK)))
    (root,) = found["roots"]
    (domain,) = root["domains"]
    assert (domain["key"], domain["pods"]) == (RACK, 8)
    assert {node["name"].rpartition("-")[0] for node in root["nodes"]} != set()


async def test_what_does_not_fit_has_the_schedulers_reason(page: Browser) -> None:
    (found,) = await answered(page, question(gang(pods=40)))
    (root,) = found["roots"]
    assert (found["fits"], root["fits"], root["knownFrom"]) == ("no", "no", None)
    assert "8 Insufficient cpu" in root["sentence"]
    assert "needs capacity for 40 more pods; 24 fit" in root["sentence"]


async def test_each_is_decided_on_its_own_or_after_the_others(page: Browser) -> None:
    both = [gang("a", 20), gang("b", 20)]
    assert [each["fits"] for each in await answered(page, question(*both))] == ["yes", "yes"]
    one_by_one = await answered(page, question(*both, together=True))
    assert [each["fits"] for each in one_by_one] == ["yes", "no"]


async def test_yaml_and_json_are_the_same(page: Browser) -> None:
    made = gang()
    (by_text,) = await answered(page, {"workloads": [{"manifests": json.dumps(made)}]})
    (by_object,) = await answered(page, question(made))
    assert by_text == by_object


async def test_what_is_left_out_is_said(page: Browser) -> None:
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}}
    (found,) = await answered(page, question([gang(), service]))
    assert any("Service s" in note for note in found["notes"])


async def test_a_decision_that_ends_with_its_time_knows_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    complete, spent = HypotheticalState.complete, 0.0

    def completed(state: HypotheticalState) -> None:
        nonlocal spent
        complete(state)
        spent += console_fit.SECONDS

    monkeypatch.setattr(HypotheticalState, "complete", completed)
    builder = cluster()
    fit = LiveFit(builder.following, NoProcess(), spent=lambda: spent)
    async with site(builder, fit=fit) as served, browser(served) as page:
        (found,) = await answered(page, question(gang(pods=40)))
    assert found["fits"] == "unknown"
    assert "time limit" in found["roots"][0]["sentence"]


@pytest.mark.parametrize("values", [100, MOST_LIVE_VALUES + 1])
async def test_what_takes_long_to_add_goes_to_the_process(
    values: int, page: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    large = gang(pods=500)
    large["spec"]["template"]["metadata"] = {"labels": {str(at): "x" for at in range(values)}}
    seconds = console_fit.SECONDS if values > MOST_LIVE_VALUES else 0.0
    monkeypatch.setattr(console_fit, "SECONDS", seconds)
    status, answer = await page.post("/api/fit", question(large))
    assert (status, answer["message"]) == (501, "Nothing is tried here.")


class Tenant:
    """One user, who may create what the test says and sees one namespace and no nodes."""

    cookie = "who"
    secure = False

    def __init__(self, may: Callable[[Creation], bool], sees: str = "ns") -> None:
        self.may, self.sees = may, sees
        self.asked: list[Creation] = []

    async def viewer(self, secret: str) -> Viewer | None:
        return Viewer("tenant", "one", namespaces=frozenset({self.sees}), nodes=False)

    async def may_get(self, secret: str, id_: str) -> bool:
        return False

    async def may_create(self, secret: str, creation: Creation) -> bool:
        self.asked.append(creation)
        return self.may(creation)

    async def log_in(self, token: str, peer: str = "") -> str:
        return "secret"

    def use_key(self, key: str) -> str | None:
        return None

    def log_out(self, secret: str) -> None:
        """Do nothing."""


@asynccontextmanager
async def tenant(viewers: Tenant, builder: Builder | None = None) -> AsyncIterator[Browser]:
    async with (
        site(builder or cluster(), viewers=viewers) as served,
        browser(served, logged_in=False) as made,
    ):
        yield made


PRIORITY = {
    "apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass",
    "metadata": {"name": "mine"}, "value": 1000,
}  # fmt: skip


@pytest.mark.parametrize(
    ("may", "objects", "status"),
    [
        ({"pods"}, [gang()], 200),
        ({"jobs"}, [gang()], 200),
        (set(), [gang()], 403),
        ({"jobsets"}, [gang()], 403),
        ({"pods"}, [gang(), PRIORITY], 403),
        ({"pods", "priorityclasses"}, [gang(), PRIORITY], 200),
        (set(), [{"kind": "List", "apiVersion": "v1", "items": [gang()]}], 403),
    ],
)
async def test_users_ask_about_what_they_may_create(
    may: set[str], objects: list[Json], status: int
) -> None:
    viewers = Tenant(lambda creation: creation.resource in may)
    async with tenant(viewers) as page:
        found, answer = await page.post("/api/fit", question(objects))
    assert found == status, answer
    if status == 403:
        assert "You may not create" in answer["message"]
    assert {each.namespace for each in viewers.asked} <= {"ns", ""}


async def test_few_namespaces_are_reviewed_for_one_question() -> None:
    viewers = Tenant(lambda _: True)
    pods = [{"kind": "Pod", "metadata": {"namespace": f"n{at}"}} for at in range(MOST_CREATED + 1)]
    async with tenant(viewers) as page:
        status, answer = await page.post("/api/fit", question(pods))
    assert (status, viewers.asked) == (422, [])
    assert "at most 64 different kinds and namespaces" in answer["message"]


async def test_who_sees_no_nodes_and_other_namespaces_gets_no_names_of_them() -> None:
    builder = Builder()
    builder.node("n1", 4)
    builder.gang("low", 4)
    for _ in range(4):
        builder.pod("low", node="n1")
    high = {**PRIORITY, "globalDefault": True}
    async with tenant(Tenant(lambda _: True, sees="mine"), builder) as page:
        made = gang(pods=4)
        made["metadata"]["namespace"] = "mine"
        (found,) = await answered(page, question([made, high]))
    (root,) = found["roots"]
    assert root["fits"] == "afterEviction"
    assert (root["nodes"], root["domains"], root["evicts"]) == (None, None, [])
    assert (root["hiddenWorkloads"], root["hiddenPods"]) == (1, 4)
    assert "n1" not in json.dumps(found)
    assert "low" not in json.dumps(found)


def deep(levels: int) -> Json:
    made: Any = "x"
    for _ in range(levels):
        made = [made]
    return {**gang(), "extra": made}


BAD: dict[str, tuple[Any, int, str]] = {
    "no JSON": (b"{", 400, "body is invalid"),
    "no workloads": ({"workloads": []}, 400, "$.workloads"),
    "too many workloads": (question(*[gang()] * (MOST_WORKLOADS + 1)), 400, "$.workloads"),
    "an unknown field": ({"workloads": [{"manifest": "x"}]}, 400, "manifest"),
    "a wrong type": ({"workloads": [{"manifests": 5}]}, 400, "$.workloads[0].manifests"),
    "an empty workload": ({"workloads": [{}]}, 422, "workloads[0]: has no manifests"),
    "no YAML": ({"workloads": [{"manifests": "["}]}, 422, "workloads[0].manifests"),
    "nested YAML": ({"workloads": [{"manifests": "[" * 60_000}]}, 422, "workloads[0].manifests"),
    "nested JSON": (b'{"workloads":[{"objects":[' + b"[" * 100_000, 400, "body is invalid"),
    "a deep document": (question(deep(DEEPEST + 1)), 422, "too deep"),
    "many values": (question({**gang(), "x": [0] * (MOST_VALUES + 1)}), 422, "too many values"),
    "a huge number": (question({**gang(), "x": 10**30}), 422, "must be a number of at most"),
    "a date": ({"workloads": [{"manifests": "kind: Job\nx: 2026-01-01"}]}, 422, "in quotes"),
    "no kind": (question({"metadata": {}}), 422, "Object 'Kind' is missing"),
    "no supported kind": (question({"kind": "Service"}), 422, "unsupported kind"),
    "a text as a list": (question({"kind": "Pod", "metadata": {"name": "a"}, "spec": {
        "containers": "text"}}), 422, "workloads[0]: Pod a"),
    "no class": (question(gang() | {"spec": {"template": {"spec": {
        "priorityClassName": "none", "containers": [{"name": "c"}]}}}}), 422, "PriorityClass"),
    "a billion pods": (question(gang(pods=10**9)), 501, "Nothing is tried here"),
    "too much YAML": ({"workloads": [{"manifests": "#" * (MOST_TEXT + 1)}]}, 413, "as objects"),
    "a huge body": (b" " * (FIT_LIMIT + 1), 413, "at most"),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
async def test_bad_input_is_refused_with_the_field_and_the_way_out(
    page: Browser, case: str
) -> None:
    body, status, says = BAD[case]
    found, answer = await page.post("/api/fit", body)
    assert found == status, answer
    assert says in answer["message"]


async def test_an_alias_that_stands_for_billions_costs_little(page: Browser) -> None:
    lines = ["kind: Job", "a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    for level in range(1, 12):
        parts = ", ".join(f"*a{level - 1}" for _ in range(10))
        lines.append(f"a{level}: &a{level} [{parts}]")
    status, answer = await page.post("/api/fit", {"workloads": [{"manifests": "\n".join(lines)}]})
    assert (status, "too many values" in answer["message"]) == (422, True)


class Copies:
    """A process that answers by number, and the questions that it got."""

    def __init__(self) -> None:
        self.asked: list[FitQuestion] = []

    async def fit(self, question: FitQuestion, viewer: Viewer) -> list[FitResult]:
        self.asked.append(question)
        return [FitResult(fits="unknown", roots=[], notes=[str(at)]) for at in question.only]


CLAIM = {
    "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "c"},
    "spec": {"storageClassName": "none"},
}  # fmt: skip


async def test_what_needs_a_copy_goes_to_the_process_in_its_place() -> None:
    builder, copies = cluster(), Copies()
    asked = question(gang("a"), [gang("b"), CLAIM], gang("c"), gang("d", pods=600))
    async with (
        site(builder, fit=LiveFit(builder.following, copies)) as served,
        browser(served) as page,
    ):
        found = await answered(page, asked)
        assert [each["notes"] for each in found] == [[], ["1"], [], ["3"]]
        found = await answered(page, question(gang("a"), [gang("b"), CLAIM], together=True))
        assert [each["notes"] for each in found] == [["0"], ["1"]]
    assert [each.only for each in copies.asked] == [[1, 3], [0, 1]]


async def test_a_user_has_so_many_questions_at_a_time() -> None:
    holds = asyncio.Event()

    async def slow(request: FitRequest, *_: Any) -> Any:
        await holds.wait()
        raise RefusedError(418, "done")

    async with site(cluster(), fit=slow) as served, browser(served) as page:
        asked = [asyncio.create_task(page.post("/api/fit", question(gang()))) for _ in range(5)]
        done, _ = await asyncio.wait(asked, return_when=asyncio.FIRST_COMPLETED)
        while len(done) < 5 - MOST_OF_USER:
            done, _ = await asyncio.wait(asked, timeout=0.05)
        holds.set()
        statuses = sorted([(await each)[0] for each in asked])
        assert statuses == [418] * MOST_OF_USER + [429] * (5 - MOST_OF_USER)


def test_a_user_has_so_many_workloads_in_a_second() -> None:
    now = 0.0
    limits = FitLimits(lambda: now)
    for _ in range(int(AT_ONCE) // MOST_WORKLOADS):
        limits.count("anna", MOST_WORKLOADS)
    with pytest.raises(RefusedError):
        limits.count("anna", 1)
    limits.count("ben", MOST_WORKLOADS)
    now = 1 / PER_SECOND
    limits.count("anna", 1)
    with pytest.raises(RefusedError):
        limits.count("anna", 1)


class _Hurried(SystemClock):
    """A clock on which every slice is over, so that work gives way at each pause."""

    def __init__(self) -> None:
        super().__init__()
        self.monotonic = count(1.0, 0.02).__next__


async def may(_: Creation) -> bool:
    return True


async def test_others_wait_for_one_decision_at_most_whatever_is_asked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    builder = cluster()
    fit = LiveFit(builder.following, NoProcess(), Stepwise(_Hurried()))
    begun = count()
    decided = 0
    decide = fit._decide

    def counted(*given: Any) -> list[FitResult]:
        nonlocal decided
        decided = next(begun)
        return decide(*given)

    monkeypatch.setattr(fit, "_decide", counted)
    workload = FitWorkload(objects=[gang(pods=30)])
    request = FitRequest(workloads=[workload] * 8)
    asked = [
        asyncio.create_task(fit(request, Viewer(str(user), str(user)), may)) for user in range(6)
    ]
    waits: list[int] = []
    while not all(each.done() for each in asked):
        before = decided
        await builder.cluster.settled()
        builder.following.refresh()
        waits.append(decided - before)
        await asyncio.sleep(0)
    answers = await asyncio.gather(*asked)
    assert {each.workloads[0].fits for each in answers} == {"no"}
    assert len(waits) > 20
    # A decision may begin again once, when it turns out to be long.
    assert max(waits) <= 4


async def test_a_client_that_leaves_leaves_nothing_behind() -> None:
    builder = cluster()
    state = settled(builder)
    before = fingerprint(state)
    fit = LiveFit(builder.following, NoProcess(), Stepwise(_Hurried()))
    request = FitRequest(workloads=[FitWorkload(objects=[gang(pods=30)])] * 3)
    for turns in range(1, 60, 4):
        asked = asyncio.create_task(fit(request, ALL, may))
        for _ in range(turns):
            await asyncio.sleep(0)
        asked.cancel()
        await asyncio.wait({asked})
        await builder.cluster.settled()
        assert fingerprint(state) == before
