"""The minCount of a group through the life cycle of its Jobs, one row for each moment."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from api.constants import ANNOTATION_MIN_COUNT_BASIS
from api.integration.common.minimum import (
    CountedPods,
    GroupJob,
    GroupPodCounts,
    Progress,
    count_indexes,
    group_pod_counts,
    minimum,
    most_pods,
    remaining,
    with_minimum,
)

Json = dict[str, Any]


def job(
    parallelism: int,
    completions: int | None = None,
    *,
    succeeded: int = 0,
    given_up: int = 0,
    complete: bool = False,
    active: int = 0,
    present: int = 0,
    made: bool = True,
) -> GroupJob:
    """Return a Job; `active` pods run or are pending, `present` ones succeeded and still exist."""
    progress = Progress(succeeded, given_up, complete) if made else None
    return GroupJob(parallelism, completions, progress, CountedPods(active, present))


LIFE = [
    # The state of a Job, and its minCount for the requested count (None: all).
    pytest.param(job(4, made=False), None, 4, id="the Job is yet to be made"),
    pytest.param(job(4, 4), None, 4, id="no pod yet"),
    pytest.param(job(4, 4, active=2), None, 4, id="its pods come"),
    pytest.param(job(4, 4, active=4), 2, 2, id="fewer asked for"),
    pytest.param(job(4, 3), None, 3, id="fewer completions than parallelism"),
    pytest.param(job(4, 8, succeeded=2, present=2, active=4), None, 4, id="some succeeded"),
    pytest.param(job(4, 8, succeeded=6, present=6, active=2), None, 4, id="nearly done"),
    pytest.param(job(4, 8, succeeded=6, active=2), None, 2, id="nearly done, cleaned up"),
    pytest.param(job(4, 8, succeeded=6, active=1), None, 2, id="cleaned up, one is replaced"),
    pytest.param(job(4, 8, succeeded=6, present=1, active=2), None, 3, id="cleaned up in part"),
    pytest.param(job(4, 8, succeeded=6), 3, 2, id="cleaned up, more asked for than can come"),
    pytest.param(job(4, 8, succeeded=4), None, 4, id="cleaned up, and enough to come"),
    pytest.param(job(4, 4, succeeded=3, complete=True, present=3), None, 3, id="success policy"),
    pytest.param(job(4, 8, succeeded=6, complete=True), None, 1, id="complete before its number"),
    pytest.param(job(4, 4, succeeded=4, complete=True), None, 1, id="nothing left: never below 1"),
    pytest.param(job(3, 3, given_up=1, active=1), None, 2, id="an index given up"),
    pytest.param(job(3, 6, given_up=1), None, 3, id="an index given up, enough others"),
    pytest.param(job(3, 3, given_up=1, succeeded=1, active=1), None, 1, id="given up and done"),
    pytest.param(job(3, 3, given_up=1, succeeded=1, present=1), None, 2, id="given up and there"),
    pytest.param(job(2, 2, given_up=1, succeeded=5), None, 1, id="more than there ever were"),
    pytest.param(job(4), None, 4, id="a work queue"),
    pytest.param(job(4, succeeded=1, present=1, active=3), None, 4, id="a work queue ends"),
    pytest.param(job(4, succeeded=1, active=3), None, 3, id="a work queue ends, cleaned up"),
    pytest.param(job(4, succeeded=1, active=1), 2, 1, id="a work queue makes no more"),
    pytest.param(job(2, active=4), None, 2, id="scaled down, pods still there"),
    pytest.param(job(6, active=2), None, 6, id="scaled up, pods yet to come"),
    # Caches may lag.
    pytest.param(job(4, 4, succeeded=1, active=4), None, 4, id="a pod counted, not seen to end"),
    pytest.param(job(4, 4, present=1, active=3), None, 4, id="a pod seen to end, not counted"),
    pytest.param(
        job(4, 4, complete=True, succeeded=4, active=4), None, 4, id="all counted at once"
    ),
]


@pytest.mark.parametrize(("part", "asked", "want"), LIFE)
def test_a_job_s_minimum(part: GroupJob, asked: int | None, want: int) -> None:
    value, _ = minimum(part.size if asked is None else asked, group_pod_counts([part]))

    assert value == want


@pytest.mark.parametrize(
    ("parts", "want"),
    [
        pytest.param(
            [job(2, 2, active=2), job(2, 2, active=2)], GroupPodCounts(4, 4, 4), id="both run"
        ),
        pytest.param(
            [job(2, 2), job(2, 2, made=False)], GroupPodCounts(4, 4, 4), id="one is to be made"
        ),
        pytest.param(
            [job(2, 2, succeeded=2, complete=True, present=2), job(2, 2, active=2)],
            GroupPodCounts(4, 4, 4),
            id="one is done",
        ),
        pytest.param(
            [job(2, 2, succeeded=2, complete=True), job(2, 2, active=1)],
            GroupPodCounts(4, 2, 2),
            id="one is done and cleaned up",
        ),
        pytest.param(
            [job(4, 4, succeeded=4, complete=True, active=4), job(4, 4)],
            GroupPodCounts(8, 8, 8),
            id="one is done, its pods not seen to end, the others to come",
        ),
        pytest.param(
            [job(4, 8, succeeded=6, present=1, active=2)],
            GroupPodCounts(4, 3, 2),
            id="cleaned up in part",
        ),
        pytest.param([job(0, 4), job(2, 0)], GroupPodCounts(0, 0, 0), id="no pods are wanted"),
        pytest.param([], GroupPodCounts(0, 0, 0), id="no Jobs"),
        pytest.param([job(2, 2, active=4)], GroupPodCounts(2, 4, 2), id="shrinking"),
    ],
)
def test_the_standing_of_a_group(parts: list[GroupJob], want: GroupPodCounts) -> None:
    assert group_pod_counts(parts) == want


WHOLE = GroupPodCounts(4, 4, 4)
LESS = GroupPodCounts(4, 2, 1)


def note(size: int, asked: int, pods: int, value: int, edited: str = "") -> str:
    said = f"size={size},asked={asked},pods={pods},minCount={value}"
    return f"{said},edited={edited}" if edited else said


@pytest.mark.parametrize(
    ("asked", "now", "live", "was", "want"),
    [
        pytest.param(4, WHOLE, None, "", (4, note(4, 4, 4, 4)), id="a new group"),
        pytest.param(
            4, WHOLE, 4, "parallelism=4", (4, note(4, 4, 4, 4)), id="an earlier version's"
        ),
        pytest.param(4, WHOLE, 3, "x", (4, note(4, 4, 4, 4)), id="a note of no form"),
        pytest.param(4, LESS, 4, note(4, 4, 4, 4), (2, note(4, 4, 1, 2)), id="fewer are left"),
        pytest.param(2, LESS, 2, note(4, 2, 4, 2), (2, note(4, 2, 4, 2)), id="no write for less"),
        pytest.param(4, WHOLE, 2, note(4, 4, 1, 2), (4, note(4, 4, 4, 4)), id="all come again"),
        pytest.param(2, WHOLE, 2, note(4, 2, 1, 2), (2, note(4, 2, 4, 2)), id="more pods only"),
        pytest.param(
            6, GroupPodCounts(6, 6, 6), 4, note(4, 4, 4, 4), (6, note(6, 6, 6, 6)), id="grown"
        ),
        pytest.param(
            2, GroupPodCounts(6, 6, 6), 2, note(4, 2, 4, 2), (2, note(6, 2, 6, 2)), id="larger"
        ),
        pytest.param(
            2, GroupPodCounts(3, 3, 3), 2, note(4, 2, 4, 2), (2, note(3, 2, 3, 2)), id="smaller"
        ),
        pytest.param(2, WHOLE, 4, note(4, 4, 4, 4), (2, note(4, 2, 4, 2)), id="less asked for"),
        pytest.param(9, WHOLE, None, "", (9, note(4, 9, 4, 9)), id="a template asks for too many"),
        pytest.param(9, LESS, None, "", (2, note(4, 9, 1, 2)), id="and fewer are left"),
        # Changed by hand.
        pytest.param(4, WHOLE, 3, note(4, 4, 4, 4), (3, note(4, 4, 4, 4)), id="lowered by hand"),
        pytest.param(4, WHOLE, 5, note(4, 4, 4, 4), (5, note(4, 4, 4, 4)), id="raised by hand"),
        pytest.param(
            4, LESS, 3, note(4, 4, 4, 4), (2, note(4, 4, 1, 2, "3")), id="by hand, fewer are left"
        ),
        pytest.param(
            4, LESS, 1, note(4, 4, 1, 2, "3"), (1, note(4, 4, 1, 2, "3")), id="by hand again"
        ),
        pytest.param(
            4, WHOLE, 2, note(4, 4, 1, 2, "3"), (3, note(4, 4, 4, 3, "3")), id="by hand, all come"
        ),
        pytest.param(
            6,
            GroupPodCounts(6, 6, 6),
            3,
            note(4, 4, 4, 4),
            (6, note(6, 6, 6, 6)),
            id="by hand, grown",
        ),
        pytest.param(
            2, WHOLE, 3, note(4, 4, 4, 4), (2, note(4, 2, 4, 2)), id="by hand, less asked for"
        ),
    ],
)
def test_what_is_written(
    asked: int, now: GroupPodCounts, live: int | None, was: str, want: tuple[int, str]
) -> None:
    assert minimum(asked, now, live, was) == want


def test_one_write_is_enough() -> None:
    written = minimum(4, LESS, 3, note(4, 4, 4, 4))

    assert minimum(4, LESS, *written) == written


@pytest.mark.parametrize(
    ("said", "want"),
    [
        (note(4, 4, 3, 2), 3),
        (note(4, 4, 3, 2, "1"), 3),
        ("", None),
        ("parallelism=4", None),
        (f"{note(4, 4, 3, 2)} ", None),
        (note(4, 4, 10**11, 2), None),
    ],
)
def test_the_pods_that_a_note_names(said: str, want: int | None) -> None:
    assert most_pods(said) == want


@pytest.mark.parametrize(
    ("said", "completions", "want"),
    [
        ("", 5, 0),
        ("0", 5, 1),
        ("1,3-5", 9, 4),
        ("1,3-5", 5, 3),
        ("0-99999999", 10, 10),
        ("7-9", 5, 0),
        ("5-3", 9, 0),
        ("x,-1,2-,1-2-3,\u0663,4", 9, 1),
    ],
)
def test_listed_indexes_are_counted(said: str, completions: int, want: int) -> None:
    assert count_indexes(said, completions) == want


def test_many_indexes_are_not_enumerated() -> None:
    """An enumeration would take forever, and all memory."""
    assert count_indexes("0-2000000000", 2_000_000_000) == 2_000_000_000


def leaf(name: str, parent: str = "") -> Json:
    spec: Json = {"schedulingPolicy": {"gang": {"minCount": 2}}}
    if parent:
        spec["parentCompositePodGroupName"] = parent
    return {"kind": "PodGroup", "metadata": {"name": name, "annotations": {}}, "spec": spec}


def composite(name: str, count: int | None, parent: str = "") -> Json:
    policy: Json = {"basic": {}} if count is None else {"gang": {"minGroupCount": count}}
    return leaf(name, parent) | {
        "kind": "CompositePodGroup",
        "spec": leaf(name, parent)["spec"] | {"schedulingPolicy": policy},
    }


def tree(root: int | None = 2, inner: int | None = 2) -> list[Json]:
    return [
        composite("r", root),
        composite("a", inner, "r"),
        composite("b", inner, "r"),
        *(leaf(f"{above}{index}", above) for above in "ab" for index in range(2)),
    ]


def counts(groups: list[Json]) -> dict[str, Any]:
    return {
        it["metadata"]["name"]: it["spec"]["schedulingPolicy"].get("gang", {}).get("minGroupCount")
        for it in groups
    }


GONE = GroupPodCounts(2, 0, 0)
HERE = GroupPodCounts(2, 1, 1)


@pytest.mark.parametrize(
    ("gone", "want"),
    [
        pytest.param("", {"r": 2, "a": 2, "b": 2, "a0": None, "a1": None, "b0": None, "b1": None}),
        pytest.param("a1", {"r": 2, "a": 1, "b": 2, "a0": None, "b0": None, "b1": None}),
        pytest.param("a0 a1", {"r": 1, "b": 2, "b0": None, "b1": None}),
        pytest.param("a0 a1 b0", {"r": 1, "b": 1, "b1": None}),
        pytest.param("a0 a1 b0 b1", {}),
    ],
)
def test_groups_for_which_no_pod_can_come(gone: str, want: dict[str, Any]) -> None:
    pod_counts = {f"{above}{n}": HERE for above in "ab" for n in range(2)}
    pod_counts |= dict.fromkeys(gone.split(), GONE)

    assert counts(remaining(tree(), pod_counts)) == want


def test_what_was_asked_for_is_not_raised_and_basic_stays() -> None:
    pod_counts = {"a0": GONE, "a1": HERE, "b0": HERE, "b1": HERE}
    of_three = [*tree(1, 1), leaf("a2", "a")]

    assert counts(remaining(of_three, pod_counts))["a"] == 1
    assert counts(remaining(tree(None, None), pod_counts)) == {
        "r": None, "a": None, "b": None, "a1": None, "b0": None, "b1": None,
    }  # fmt: skip


def test_groups_of_no_known_standing_stay() -> None:
    assert remaining(tree(), {}) == tree()
    assert remaining([composite("c", 1)], {}) == [composite("c", 1)]


def test_a_group_gets_its_minimum_and_note() -> None:
    made = with_minimum(leaf("g"), GroupPodCounts(3, 1, 1))

    assert made["spec"]["schedulingPolicy"] == {"gang": {"minCount": 1}}
    assert made["metadata"]["annotations"] == {ANNOTATION_MIN_COUNT_BASIS: note(3, 2, 1, 1)}
    basic = leaf("g") | {"spec": {"schedulingPolicy": {"basic": {}}}}
    assert with_minimum(basic, WHOLE) == basic


SMALL = st.integers(0, 6)
PARTS = st.builds(
    job,
    SMALL,
    st.none() | SMALL,
    succeeded=SMALL,
    given_up=SMALL,
    complete=st.booleans(),
    active=SMALL,
    present=SMALL,
    made=st.booleans(),
)


@given(parts=st.lists(PARTS, max_size=4), asked=st.integers(1, 20))
def test_no_group_waits_for_more_than_can_come_or_starts_with_less(
    parts: list[GroupJob], asked: int
) -> None:
    now = group_pod_counts(parts)
    value, _ = minimum(asked, now)
    present = sum(sum(part.pods) for part in parts)

    assert 1 <= value <= asked
    assert value <= max(1, now.possible) or now.possible >= now.size
    # Existing pods are never too few for the requested count.
    assert value >= min(asked, present) or now.possible < present
    assert now.possible >= present
