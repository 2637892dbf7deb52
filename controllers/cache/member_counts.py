"""Pod counts of each group, as the scheduler counts them, in total and by Job. O(1) per event."""

from collections.abc import Hashable, Iterator
from typing import TypeVar

from api.integration.common.minimum import NO_PODS, CountedPods
from controllers.cache.objects import Pod
from kube.client.meta import Key
from kube.informers.cache import Cache

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class MemberCounts:
    """Counts of the pods in a cache by the groups that they name."""

    def __init__(self, pods: Cache[Pod]) -> None:
        """Follow the cache; a later subscriber of the cache sees counts that include its event."""
        self._total: dict[Key, int] = {}
        self._of_jobs: dict[tuple[Key, str], CountedPods] = {}
        pods.subscribe(self._on_pod)

    def total(self, group: Key) -> int:
        """Return the number of pods that name the group and count for it, of any owner."""
        return self._total.get(group, 0)

    def of_job(self, group: Key, uid: str) -> CountedPods:
        """Return the counts for the Job with this UID."""
        return self._of_jobs.get((group, uid), NO_PODS)

    def _on_pod(self, old: Pod | None, new: Pod | None) -> None:
        # Most events of a pod change nothing that is counted here.
        if old is not None and new is not None and _counted(old) == _counted(new):
            return
        for pod, sign in ((old, -1), (new, 1)):
            if pod is not None:
                self._count(pod, sign)

    def _count(self, pod: Pod, sign: int) -> None:
        if not pod.counts:
            return
        active, succeeded = (sign, 0) if pod.active else (0, sign)
        for group in _groups(pod):
            before = self._of_jobs.get((group, pod.job), NO_PODS)
            now = CountedPods(before.active + active, before.succeeded + succeeded)
            _set(self._of_jobs, (group, pod.job), now, NO_PODS)
            _set(self._total, group, self.total(group) + sign, 0)


def _set(counts: dict[K, V], key: K, value: V, nothing: V) -> None:
    # Delete zero entries. Otherwise the dicts would grow with every group that ever existed.
    if value == nothing:
        counts.pop(key, None)
    else:
        counts[key] = value


def _groups(pod: Pod) -> Iterator[Key]:
    return ((pod.metadata.namespace, name) for name in pod.groups)


def _counted(pod: Pod) -> tuple[object, ...]:
    return (pod.counts, pod.active, pod.groups, pod.job)
