"""A decision's places, and who and what is there besides."""

from __future__ import annotations

from collections.abc import Collection

from tests.scheduler.crossings.world import Entry, World


class Placed:
    """The places that a decision has, beside what is there without those that are `gone`.

    With a `plan` others are evicted first; claims without users are free by then.
    """

    def __init__(self, world: World, decision: Entry, gone: Collection[str] = ()) -> None:
        self.world = world
        self.decision = decision
        self.before = world.present(gone)
        self.gone = gone
        self.new = [world.pod(name) | {"node": node} for name, node in decision["places"]]
        self.all = [*self.before, *self.new]
        self.users = world.users | decision.get("users", {})
        self.given = dict(world.given)
        self.plan = "victims" in decision
        if self.plan:
            living = {claim for it in self.before for claim in self.users.get(it["name"], ())}
            self.given = {name: it for name, it in self.given.items() if name in living}
        self.given |= decision.get("claims", {})

    def value(self, node: str, key: str) -> str | None:
        labels = self.world.nodes.get(node, {})
        return node if key == "host" else labels.get(key)
