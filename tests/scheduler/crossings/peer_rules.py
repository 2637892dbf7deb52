"""The rules about other pods: affinity, anti-affinity, spread."""

from collections import Counter
from collections.abc import Iterable, Iterator
from functools import cached_property

from tests.scheduler.crossings.cluster import Entry, keeps_out, space
from tests.scheduler.crossings.placed import Placed


class PeerRules(Placed):
    """The violations of pods' peers."""

    def _apart(self, pod: Entry, other: Entry) -> bool:
        """Return True if the two never run at the same time."""
        one, two = self.cluster.stage(pod), self.cluster.stage(other)
        if one is None or two is None or one[0] != two[0] or (one[2] and two[2]):
            return False
        return one[1] != two[1]

    def peers(self, pod: Entry) -> Iterator[str]:
        yield from self.keeps_away(pod)
        for app, key in pod.get("affinity", ()):
            yield from self._affinity(pod, app, key)
        for term in pod.get("spread", ()):
            yield from self._spread(pod, term)

    def keeps_away(self, pod: Entry) -> Iterator[str]:
        for other in self.all:
            if other["name"] == pod["name"] or self._apart(pod, other):
                continue
            for one, two in ((pod, other), (other, pod)):
                for app, key in one.get("anti", ()):
                    where = self.value(pod["node"], key)
                    same = where is not None and where == self.value(other["node"], key)
                    if two.get("app") == app and same and space(one) == space(two):
                        yield f"{one['name']} keeps {two['name']} away from its {key}"

    def _affinity(self, pod: Entry, app: str, key: str) -> Iterator[str]:
        where = self.value(pod["node"], key)
        if where is None:
            yield f"{pod['name']} is on {pod['node']} without {key}, which its affinity needs"
        elif not self._near(pod, app, key, self._in_turn):
            yield f"{pod['name']} is in {key} {where} without a pod {app}, which it needs"

    @cached_property
    def _in_turn(self) -> list[Entry]:
        """Return the pods that exist after each new pod has followed a peer that it needs.

        Two pods that need each other do not satisfy each other: one of them must be first.
        """
        there, left = list(self.before), list(self.new)
        while True:
            come = [
                pod
                for pod in left
                if all(self._near(pod, app, key, there) for app, key in pod.get("affinity", ()))
            ]
            if not come:
                return there
            there += come
            left = [it for it in left if it not in come]

    def _near(self, pod: Entry, app: str, key: str, there: list[Entry]) -> bool:
        """Return True if a peer is in the pod's domain, or the pod may be the first of its kind."""
        where = self.value(pod["node"], key)
        peers = [it for it in self._of(pod, app, there) if it["name"] != pod["name"]]
        if where is not None and any(self.value(it["node"], key) == where for it in peers):
            return True
        return pod.get("app") == app and not any(
            self.value(it["node"], key) is not None for it in self._of(pod, app, self.before)
        )

    def _of(self, pod: Entry, app: str, others: Iterable[Entry]) -> list[Entry]:
        """Return the pods of the app in the pod's namespace."""
        return [it for it in others if it.get("app") == app and space(it) == space(pod)]

    def _spread(self, pod: Entry, term: Entry) -> Iterator[str]:
        app, key, skew = term["app"], term["key"], term.get("skew", 1)
        where = self.value(pod["node"], key)
        if where is None:
            yield f"{pod['name']} is on {pod['node']} without {key}, which it is spread over"
            return
        counted = [it for it in self._of(pod, app, self.all) if not it.get("deleted")]
        alike = all(
            term in it.get("spread", ())
            and it.get("rack") == pod.get("rack")
            and it.get("tolerates") == pod.get("tolerates")
            for it in self._of(pod, app, self.new)
        )
        staged = any(self.cluster.stage(it) for it in counted)
        if pod.get("app") != app or not alike or staged:
            return  # then it depends on the order
        keys = {it["key"] for it in pod["spread"]}
        nodes = {
            name: self.value(name, key)
            for name, node in self.cluster.nodes.items()
            if all(self.value(name, it) is not None for it in keys)
            and (term.get("everywhere") or pod.get("rack") in (None, node.get("rack")))
            and not (term.get("taints") and keeps_out(node, pod))
        }
        counts = Counter(nodes[it["node"]] for it in counted if it["node"] in nodes)
        few = len({*nodes.values()}) < term.get("domains", 0)
        least = 0 if few else min((counts[it] for it in nodes.values()), default=0)
        if counts[where] - least > skew:
            yield f"{pod['name']}: {counts[where]} pods {app} in {key} {where}, {least} in another"
