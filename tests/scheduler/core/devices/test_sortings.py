"""Devices that no selector distinguishes are of one kind, and evaluation can resume."""

import itertools
from collections.abc import Iterable

import pytest

from scheduler.core.devices import sortings as module
from scheduler.core.devices.allowance import AllowanceExhaustedError, DeviceAllowance
from scheduler.core.devices.contents import Contents, Seen
from scheduler.core.devices.kinds import NOTHING, Watched, watched_by
from scheduler.core.devices.layouts import DeviceLayout
from scheduler.core.devices.sortings import Sorting, Sortings
from scheduler.core.values.device_asks import Ask
from scheduler.core.values.devices import DeviceInfo
from tests.scheduler.core.devices.solving import resolved, view_of
from tests.scheduler.devices.builders import DRIVER, ask, device, evaluate, gpu, has, pool, same


class Nodes:
    """A row for each of these tuples of devices, and a counting evaluator."""

    def __init__(self, *nodes: Iterable[DeviceInfo]) -> None:
        self.judged = 0
        self.allowance = DeviceAllowance()
        self.sortings = Sortings(self.evaluate, self.allowance)
        self.seen: dict[int, Seen] = {}
        for row, devices in enumerate(nodes):
            self.put(row, *devices)

    def evaluate(self, expression: str, driver: str, sample: DeviceInfo) -> bool | str:
        self.judged += 1
        return evaluate(expression, driver, sample)

    def put(self, row: int, *devices: DeviceInfo) -> None:
        name = f"n{row}"
        view = view_of([pool(*devices, pool=name, node=name)], node=name)
        self.seen[row] = self.sortings.contents.seen(view)
        self.sortings.stale({row})

    def sorting(self, *asks: Ask) -> Sorting:
        watched = watched_by(resolved(asks)) if asks else NOTHING
        return self.sortings.of(watched, self.seen, len(self.seen))

    def layouts(self, *asks: Ask) -> list[DeviceLayout]:
        found = self.sorting(*asks)
        return [found.layouts[number] for number in found.column.tolist()]


def with_uuids(count: int, each: int = 2) -> Nodes:
    return Nodes(
        *(
            [device(f"d{at}", {"uuid": f"{node}-{at}", "rail": at}) for at in range(each)]
            for node in range(count)
        )
    )


def kinds(layout: DeviceLayout) -> list[int]:
    return [kind.index for kind in layout.kinds]


def test_devices_without_a_selector_that_tells_them_apart_are_one_kind() -> None:
    made = Nodes(
        [device("a", {"model": "x", "uuid": "1"}), device("b", {"model": "x", "uuid": "2"})],
        [device("a", {"model": "y", "uuid": "1"}), device("d", {"model": "x"}, capacity={"m": 1})],
    )

    first, second = made.layouts(ask(gpu(1, has("model", "x"))))

    assert kinds(first) == [0, 0]
    assert len({*kinds(first), *kinds(second)}) == 3
    assert made.judged == 3


def test_a_selector_for_one_uuid_makes_two_kinds_and_two_layouts() -> None:
    made = with_uuids(100)

    layouts = made.layouts(ask(gpu(1, has("uuid", "7-1"))))

    assert len({layout.index for layout in layouts}) == 2
    assert kinds(layouts[7]) == [0, 1]
    assert {tuple(kinds(layout)) for at, layout in enumerate(layouts) if at != 7} == {(0, 0)}
    assert made.judged == 200


def test_a_selector_over_all_attributes_makes_as_many_kinds_as_verdicts() -> None:
    made = with_uuids(100)
    made.sortings = Sortings(lambda text, _driver, _device: text == "yes", made.allowance)
    for row in range(100):
        name = f"n{row}"
        view = view_of([pool(device("d", {"uuid": name}), pool=name, node=name)], node=name)
        made.seen[row] = made.sortings.contents.seen(view)
    text = "device.attributes.exists(k, true)"

    layouts = made.layouts(ask(gpu(1, text)))

    assert len({layout.index for layout in layouts}) == 1


def test_a_constraint_on_uuids_leaves_equal_nodes_equal() -> None:
    made = with_uuids(100, each=8)

    layouts = made.layouts(ask(gpu(2), constraints=[same("uuid")]))

    assert len({layout.index for layout in layouts}) == 1
    assert layouts[0].values == {f"{DRIVER}/uuid": (1, 2, 3, 4, 5, 6, 7, 8)}
    assert len(set(layouts[0].twins)) == 8


def test_compared_values_are_equal_by_place_and_type() -> None:
    made = Nodes(
        [
            device("a", {"x": 1}),
            device("b", {"x": True}),
            device("c"),
            device("d", {f"{DRIVER}/x": 1}),
            device("e", {"other.com/x": 1}),
        ]
    )

    (layout,) = made.layouts(ask(gpu(2), constraints=[same("x")]))

    assert layout.values == {f"{DRIVER}/x": (1, 2, 0, 1, 0)}


def test_a_name_in_any_domain_tells_apart() -> None:
    made = Nodes([device("a", {"x.com/model": "x"}), device("b")])
    text = has("model", "x", domain="x.com")

    assert kinds(made.layouts(ask(gpu(1, text)))[0]) == [0, 1]
    assert made.judged == 2


def test_attributes_that_no_device_has_make_no_columns() -> None:
    made = with_uuids(3)
    for at in range(50):
        made.layouts(ask(gpu(1, has(f"none{at}", 1)), constraints=[same(f"none{at}")]))

    assert made.judged == 50
    assert not made.sortings.contents._columns


def test_only_what_is_new_is_judged_when_a_node_changes() -> None:
    made = with_uuids(10)
    want = ask(gpu(1, has("uuid", "3-0")))
    made.layouts(want)
    before = made.judged

    made.put(4, device("d0", {"uuid": "new", "rail": 0}), device("d1", {"uuid": "4-1", "rail": 1}))
    made.put(10, device("d0", {"uuid": "3-0", "rail": 0}))
    layouts = made.layouts(want)

    assert made.judged == before + 1
    assert len({layout.index for layout in layouts}) == 3


# In steps


def test_judging_stops_where_the_allowance_ends_and_goes_on_there() -> None:
    made = with_uuids(50)
    want = ask(gpu(1, has("uuid", "7-1")))
    rounds = 0
    for _ in range(100):
        made.allowance.most = made.allowance.spent + 10
        before = made.judged
        rounds += 1
        try:
            layouts = made.layouts(want)
            break
        except AllowanceExhaustedError:
            assert made.judged - before == 10

    assert made.judged == 100
    assert rounds == 11
    assert len({layout.index for layout in layouts}) == 2


def test_layouts_count_as_work_too() -> None:
    made = Nodes(*([device("d")] * (1 + at) for at in range(20)))
    made.allowance.most = made.allowance.spent + 5

    with pytest.raises(AllowanceExhaustedError):
        made.sorting()
    made.allowance.most = made.allowance.spent + 15
    found = made.sorting()

    assert len(set(found.column.tolist())) == 20


def test_what_the_judge_raises_passes_through_and_leaves_no_verdict() -> None:
    class StopError(Exception):
        pass

    made = with_uuids(5)
    calls = itertools.count()

    def stopping(expression: str, driver: str, sample: DeviceInfo) -> bool | str:
        if next(calls) == 3:
            raise StopError
        return evaluate(expression, driver, sample)

    made.sortings.evaluate = stopping
    want = ask(gpu(1, has("uuid", "0-0")), gpu(1, has("uuid", "1-1"), name="b"))

    with pytest.raises(StopError):
        made.layouts(want)
    (unfinished,) = made.sortings.all.values()
    assert len(unfinished) == 1
    layouts = made.layouts(want)

    assert [kinds(layout) for layout in layouts] == [[0, 1], [1, 2], [1, 1], [1, 1], [1, 1]]
    assert next(calls) == 2 + 2 + 2 * 9


# Bounds


def test_few_sortings_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_SORTINGS", 3)
    made = with_uuids(2)
    for at in range(9):
        made.sorting(ask(gpu(1, has("rail", at))))

    assert len(made.sortings.all) == 3


def test_the_largest_sortings_give_way_to_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_PARTS", 0)
    made = with_uuids(100)
    usual = made.sorting(ask(gpu(1, has("rail", 1))))
    for at in range(30):
        made.sorting(ask(gpu(1, has("uuid", f"{at}-0"))))

    assert made.sorting(ask(gpu(1, has("rail", 1)))) is usual
    assert sum(map(len, made.sortings.all.values())) <= 4 * 200
    assert Watched() not in made.sortings.all


def test_forgetting_all_devices_starts_anew() -> None:
    made = with_uuids(3)
    first = made.sorting()
    numbers = set(first.column.tolist())

    made.sortings.clear()
    made.seen.clear()
    made.put(0, device("d"))

    assert len(made.sortings.contents) == 1
    assert numbers.isdisjoint(made.sorting().column.tolist())


def test_equal_contents_are_numbered_once() -> None:
    contents = Contents()
    view = view_of([pool(device("a", {"x": 1}), device("b", {"x": 1}), device("c", {"x": True}))])

    seen = contents.seen(view)

    assert seen.contents == (0, 0, 1)
    assert contents.seen(view).frame is seen.frame
