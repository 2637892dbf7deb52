"""Selectors that distinguish every device: their cost is counted and bounded."""

from hashlib import blake2b
from typing import NoReturn

import numpy as np
import pytest

from scheduler.core.devices import states as states_module
from scheduler.core.devices.allowance import AllowanceExhaustedError
from scheduler.core.explain.explain import reasons
from scheduler.core.search.place import Placement, Refusal
from scheduler.core.values.device_asks import Ask
from scheduler.core.values.devices import DeviceInfo, SliceInfo
from scheduler.core.values.model import PodInfo
from tests.scheduler.devices.builders import ask, device, evaluate, first_of, gpu, has, same
from tests.scheduler.devices.cluster import DeviceCluster

NODES, EACH = 40, 8
DEVICES = NODES * EACH
USUAL = ask(gpu(1, has("model", "a100")))
PATTERN = "device.attributes.exists(k, pattern"


class CountingCluster(DeviceCluster):
    """Nodes whose devices have a UUID each. `PATTERN` selects half of them, others on each node."""

    def __init__(self) -> None:
        super().__init__(self.counting)
        self.judged = 0
        self.stop_at = 0
        for at in range(NODES):
            name = f"n{at:02}"
            uuids = (f"{name}-{number}" for number in range(EACH))
            self.gpu_node(name, *(device(f"d{u}", {"model": "a100", "uuid": u}) for u in uuids))

    def counting(self, expression: str, driver: str, sample: DeviceInfo) -> bool | str:
        self.judged += 1
        if self.judged == self.stop_at:
            raise KeyboardInterrupt
        if expression.startswith(PATTERN):
            uuid = dict(sample.attributes)["uuid"].value
            return bool(blake2b(f"{uuid}{expression}".encode(), digest_size=1).digest()[0] & 1)
        return evaluate(expression, driver, sample)

    @property
    def searches(self) -> int:
        return self.table.states.searches

    def work(self, info: PodInfo) -> tuple[int, int, int]:
        """Return the evaluated selectors, searches and new states of the decision about a pod."""
        before = (self.judged, self.searches, len(self.table.states.all))
        self.place_single(info)
        after = (self.judged, self.searches, len(self.table.states.all))
        judged, searches, states = (y - x for x, y in zip(before, after, strict=True))
        return judged, searches, states

    def in_steps(self, info: PodInfo, most: int) -> tuple[Placement | Refusal, list[int]]:
        """Return the decision under this allowance per attempt, and the work of each attempt."""
        spent: list[int] = []
        while True:
            before = self.table.allowance.spent
            states = self.table.states_of(np.arange(NODES)).tolist()
            self.table.allowance.most = self.table.allowance.spent + most
            try:
                return self.place_single(info), [*spent, self.table.allowance.spent - before]
            except AllowanceExhaustedError:
                spent.append(self.table.allowance.spent - before)
                assert self.table.states_of(np.arange(NODES)).tolist() == states
                assert not self.table.assumed
                assert len(spent) < 1000
            finally:
                self.table.allowance.most = None


def test_one_uuid_costs_a_verdict_for_each_device_and_few_searches() -> None:
    made = CountingCluster()

    judged, searches, states = made.work(made.asks(None, ask(gpu(1, has("uuid", "n07-3")))))

    assert judged == DEVICES
    assert searches <= 8
    assert states <= 2


def test_uuids_that_a_constraint_compares_leave_nodes_alike() -> None:
    made = CountingCluster()

    judged, searches, states = made.work(made.asks(None, ask(gpu(2), constraints=[same("uuid")])))

    assert judged == 0
    assert searches <= 4
    assert states <= 2


@pytest.mark.parametrize(
    "want",
    [
        pytest.param(ask(gpu(1, PATTERN)), id="one"),
        pytest.param(ask(first_of("l", gpu(1, PATTERN, name="a"))), id="a list"),
    ],
)
def test_other_devices_on_each_node_make_hardly_a_state(want: Ask) -> None:
    made = CountingCluster()

    judged, searches, states = made.work(made.asks(None, want))

    assert judged == DEVICES
    assert NODES < searches <= NODES * (EACH + 2)
    assert states <= 2


def test_the_explanation_makes_no_state_and_no_search() -> None:
    made = CountingCluster()
    info = made.asks(None, ask(gpu(9, PATTERN)))
    assert isinstance(made.place_single(info), Refusal)
    before = (made.judged, made.searches, len(made.table.states.all))

    found = reasons(made.state.framework, made.single(info).shape)

    assert found == (("cannot allocate all claims", NODES),)
    assert (made.judged, made.searches, len(made.table.states.all)) == before


@pytest.mark.parametrize("most", [1, 7, 100])
@pytest.mark.parametrize("text", [PATTERN, has("uuid", "n07-3")])
def test_a_decision_in_steps_is_the_same_and_each_step_is_bounded(text: str, most: int) -> None:
    made, whole = CountingCluster(), CountingCluster()
    want = ask(gpu(1, text))

    decision, spent = made.in_steps(made.asks(None, want), most)
    wanted = whole.place_single(whole.asks(None, want))

    assert isinstance(decision, Placement)
    assert isinstance(wanted, Placement)
    assert (decision.rows, decision.devices) == (wanted.rows, wanted.devices)
    assert made.judged == DEVICES
    assert made.searches == whole.searches
    assert len(spent) > 1
    assert max(spent) < most + 2 * (1 + EACH)


def test_a_gang_in_steps_is_undone_each_time() -> None:
    made = CountingCluster()
    made.gang("g", 12)
    for _ in range(12):
        made.asks("g", ask(gpu(1, PATTERN)))
    free = made.state.nodes.free.copy()
    postponed = 0
    while True:
        made.table.allowance.most = made.table.allowance.spent + 40
        try:
            decision = made.place("g")
            break
        except AllowanceExhaustedError:
            postponed += 1
            assert np.array_equal(made.state.nodes.free, free)
            assert not made.table.states_of(np.arange(NODES)).any()
    made.table.allowance.most = None

    assert postponed > 5
    made.write(decision)
    assert made.complaints() == []


@pytest.mark.parametrize("stop_at", [1, 100, DEVICES])
def test_what_the_judge_raises_leaves_everything_as_it_was(stop_at: int) -> None:
    made = CountingCluster()
    info = made.asks(None, ask(gpu(1, PATTERN)))
    made.stop_at = stop_at

    with pytest.raises(KeyboardInterrupt):
        made.place_single(info)

    assert not made.table.states_of(np.arange(NODES)).any()
    made.write(made.place_single(info))
    assert made.judged == DEVICES + 1
    assert made.complaints() == []


def test_room_that_was_not_counted_again_is_not_taken_for_counted() -> None:
    """The capacity of a changed row is counted again if the first count was cut short."""
    made = CountingCluster()
    want = ask(gpu(1, has("uuid", "n07-3")))
    first, rest = made.asks(None, want), made.asks(None, want)
    assert isinstance(made.place_single(rest), Placement)
    made.run(made.place_single(first))
    made.table.allowance.most = made.table.allowance.spent + 0
    with pytest.raises(AllowanceExhaustedError):
        made.place_single(rest)
    made.table.allowance.most = None

    assert isinstance(made.place_single(rest), Refusal)


def test_others_find_again_what_they_know(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(states_module, "MOST_ANSWERS", 4 * NODES)
    made = CountingCluster()
    made.work(made.asks(None, USUAL))
    for at in range(50):
        made.work(made.asks(None, ask(gpu(1, f"{PATTERN} {at}"))))

    assert made.work(made.asks(None, USUAL)) == (0, 0, 0)
    assert made.table.states.answers <= 4 * NODES + 1
    assert len(made.table.states.all) <= 2 + 2 * 50


def test_devices_that_are_gone_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scheduler.core.devices.table._MOST_GONE", 10)
    made = CountingCluster()
    info = made.asks(None, ask(gpu(1, has("uuid", "late"))))
    for at in range(3 * DEVICES):
        made.slice(made.slices["gpu.example.com-n00"])
        uuid = "late" if at == 3 * DEVICES - 1 else f"uuid-{at}"
        made.gpu_node("n00", device("d", {"model": "a100", "uuid": uuid}))
        made.table.view(0)
        made.state.take_changes()

    assert len(made.table.sortings.contents) <= 10 + 2 * DEVICES + EACH
    assert isinstance(made.place_single(info), Placement)


class _Slices(dict[str, SliceInfo]):
    def values(self) -> NoReturn:
        raise AssertionError("somebody goes through all slices")


def test_an_event_costs_the_same_however_many_slices_there_are() -> None:
    made = CountingCluster()
    made.table.slices.written = _Slices(made.table.slices.written)
    for _ in range(3):
        assert isinstance(made.place_single(made.asks(None, USUAL)), Placement)
        made.state.take_changes()
