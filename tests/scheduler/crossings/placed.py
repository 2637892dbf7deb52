"""A decision's placements, together with the existing pods and claims."""

from collections.abc import Collection

from tests.scheduler.crossings.cluster import Cluster, Entry


class Placed:
    """The placements of a decision, and the existing pods except those that are `gone`.

    With a `plan` others are evicted first; claims without users are free by then.
    """

    def __init__(self, cluster: Cluster, decision: Entry, gone: Collection[str] = ()) -> None:
        self.cluster = cluster
        self.decision = decision
        self.before = cluster.present(gone)
        self.gone = gone
        self.new = [cluster.pod(name) | {"node": node} for name, node in decision["places"]]
        self.all = [*self.before, *self.new]
        self.users = cluster.users | decision.get("users", {})
        self.given = dict(cluster.given)
        self.plan = "victims" in decision
        if self.plan:
            living = {claim for it in self.before for claim in self.users.get(it["name"], ())}
            self.given = {name: it for name, it in self.given.items() if name in living}
        self.given |= decision.get("claims", {})

    def value(self, node: str, key: str) -> str | None:
        labels = self.cluster.nodes.get(node, {})
        return node if key == "host" else labels.get(key)
