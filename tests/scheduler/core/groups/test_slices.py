"""Which pods are in which slice, and when a slice may start."""

import numpy as np
import pytest

from scheduler.core.groups.slices import slices_of
from tests.scheduler.core.slice_builder import SliceBuilder


def _slices(builder: SliceBuilder) -> dict[str, tuple[str, str, bool]]:
    """Return by title the names of the pods that wait, those that run, and if it may start."""
    codes = np.array([int(name[1]) for name in sorted(builder.state.nodes.row_of)], np.int64)
    found = slices_of(builder.group, codes)
    return {
        found.title(part): (
            " ".join(pod.info.name for pod in part.waiting),
            " ".join(pod.info.name for pod in part.running),
            part.may_start,
        )
        for part in found.all
    }


def test_the_index_decides_the_slice() -> None:
    builder = SliceBuilder()
    builder.cliques(8, 8)
    builder.sliced(6, 3)
    builder.indexed((5, 1, 0))
    builder.indexed((3,), node="c1n0")

    assert _slices(builder) == {
        "slice 1 of 2 (indexes 0-2)": ("g-0 g-1", "", False),
        "slice 2 of 2 (indexes 3-5)": ("g-5", "g-3", True),
    }


@pytest.mark.parametrize(
    "label",
    [
        pytest.param("batch.kubernetes.io/job-completion-index", id="Indexed Jobs"),
        pytest.param("leaderworkerset.sigs.k8s.io/worker-index", id="LeaderWorkerSets"),
        pytest.param("apps.kubernetes.io/pod-index", id="StatefulSets"),
    ],
)
def test_labels_with_an_index(label: str) -> None:
    builder = SliceBuilder()
    builder.cliques(8)
    builder.sliced(4, 2)
    for index in (3, 1, 2, 0):
        builder.pod("g", name=f"g-{index}", labels={label: str(index)})

    assert [waiting for waiting, _, _ in _slices(builder).values()] == ["g-0 g-1", "g-2 g-3"]


def test_indexes_beyond_the_minimum_raise_the_number_of_slices() -> None:
    builder = SliceBuilder()
    builder.cliques(8)
    builder.sliced(4, 2)
    builder.indexed((8, 9))

    assert _slices(builder) == {"slice 5 of 5 (indexes 8-9)": ("g-8 g-9", "", True)}


@pytest.mark.parametrize("index", ["", "-1", "1.5", "x", "1" * 10, "१"])
def test_a_wrong_index_makes_all_pods_count_by_their_creation(index: str) -> None:
    builder = SliceBuilder()
    builder.cliques(8)
    builder.sliced(2, 2)
    builder.indexed((1,))
    builder.pod("g", name="new", labels={"batch.kubernetes.io/job-completion-index": index})

    assert _slices(builder) == {"slice 1 of 1": ("g-1 new", "", True)}


def test_the_jobs_of_several_replicated_jobs_are_counted_together() -> None:
    builder = SliceBuilder()
    builder.cliques(8)
    builder.sliced(4, 2, job_pods=2)
    for index in range(2):
        for number, name in enumerate(("driver", "worker")):
            labels = {
                "batch.kubernetes.io/job-completion-index": str(index),
                "jobset.sigs.k8s.io/job-index": "0",
                "jobset.sigs.k8s.io/job-global-index": str(number),
                "jobset.sigs.k8s.io/replicatedjob-name": name,
            }
            builder.pod("g", name=f"{name}-{index}", labels=labels)

    assert [waiting for waiting, _, _ in _slices(builder).values()] == [
        "driver-0 driver-1",
        "worker-0 worker-1",
    ]


def test_slices_of_which_no_pod_exists_count() -> None:
    builder = SliceBuilder()
    builder.cliques(8)
    builder.sliced(6, 2)
    builder.indexed((0,))

    assert list(_slices(builder)) == ["slice 1 of 3 (indexes 0-1)"]


def test_hostile_indexes_of_jobs_are_far_apart() -> None:
    builder = SliceBuilder()
    builder.cliques(8)
    builder.sliced(2, 100_000)
    for job, index in (("999999999", "999999999"), ("999999999", "0"), ("0", "999999999")):
        labels = {
            "batch.kubernetes.io/job-completion-index": index,
            "jobset.sigs.k8s.io/job-index": job,
        }
        builder.pod("g", name=f"{job[0]}-{index}", labels=labels)

    assert _slices(builder) == {
        "slice 1 of 3": ("0-999999999", "", False),
        "slice 2 of 3": ("9-0", "", False),
        "slice 3 of 3": ("9-999999999", "", False),
    }


def test_without_indexes_the_domain_of_running_pods_decides() -> None:
    builder = SliceBuilder()
    builder.cliques(8, 8)
    builder.sliced(8, 4)
    for name, node in (("a", "c0n0"), ("b", "c1n0"), ("c", "c0n0"), ("d", "c1n0"), ("e", "c1n0")):
        builder.pod("g", name=name, node=node)
    for name in ("v", "w", "x", "y"):
        builder.pod("g", name=name)

    assert _slices(builder) == {
        "slice 1 of 3": ("w x", "a c", True),
        "slice 2 of 3": ("v", "b d e", True),
        "slice 3 of 3": ("y", "", False),
    }


def test_pods_that_succeeded_keep_their_place() -> None:
    builder = SliceBuilder()
    builder.cliques(8)
    builder.sliced(4, 4)
    builder.pod("g", name="done", node="c0n0", phase="Succeeded")
    builder.pod("g", name="runs", node="c0n0")
    builder.pod("g", name="waits")

    assert _slices(builder) == {"slice 1 of 1": ("waits", "runs done", True)}


def test_pods_that_failed_or_terminate_or_are_held_have_no_place() -> None:
    builder = SliceBuilder()
    builder.cliques(8)
    builder.sliced(2, 2)
    builder.pod("g", name="failed", node="c0n0", phase="Failed")
    builder.pod("g", name="terminates", node="c0n0", terminating=True)
    builder.pod("g", name="gated", gated=True)
    builder.pod("g", name="waits")

    assert _slices(builder) == {"slice 1 of 1": ("waits", "", False)}


def test_a_group_without_slices_has_none() -> None:
    builder = SliceBuilder()
    builder.gang("g", 1)

    with pytest.raises(LookupError):
        slices_of(builder.group, np.zeros(0, np.int64))
