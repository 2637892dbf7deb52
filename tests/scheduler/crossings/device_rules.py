"""The rules about devices and volumes: each has one user, which may use it."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence

from tests.scheduler.crossings.cluster import NETWORK, Entry, Stage, load
from tests.scheduler.crossings.placed import Placed


class DeviceRules(Placed):
    """The violations of pods' devices and volumes."""

    def volumes(self, pod: Entry) -> Iterator[str]:
        """Yield the violations of the volumes of a pod's claims."""
        assumed = self.cluster.assumed | self.decision.get("volumes", {})
        for name in pod.get("volumes", ()):
            claim = self.cluster.pvcs[name]
            users = [it["name"] for it in self.all if name in it.get("volumes", ())]
            if claim.get("one_pod") and len(users) > 1:
                yield f"{name} is for one pod, and used by {users}"
            chosen = claim.get("volume") or assumed.get(name)
            if chosen:
                yield from self._chosen(pod, claim, chosen)
            elif not chosen and claim.get("kind") == "hand" and name in assumed:
                yield f"{name} is to be provisioned, which nobody does"
            elif chosen is None and not self.plan and not claim.get("volume"):
                yield f"{pod['name']}: no volume is chosen for {name}"
        twice = [it for it, number in Counter(assumed.values()).items() if it and number > 1]
        if twice:
            yield f"{twice} are chosen for several claims"

    def _chosen(self, pod: Entry, claim: Entry, chosen: str) -> Iterator[str]:
        zone = self.cluster.nodes[pod["node"]].get("zone")
        volume = self.cluster.volumes[chosen]
        if volume.get("zone") not in (None, zone):
            yield f"{pod['name']} is in {zone}, its volume {chosen} in {volume['zone']}"
        fits = not volume.get("claim") and volume.get("size", 1) >= claim.get("size", 1)
        if not claim.get("volume") and not fits:
            yield f"{chosen} does not suit {claim['name']}"

    def _asked(self, pod: Entry, claim: str, at: int) -> Entry:
        if pod.get("expected") and claim.startswith(pod["name"] + "/"):
            return dict(pod["asks"][at])
        return dict(self.cluster.claims[claim].get("ask", {}))

    def claims(self, pod: Entry) -> Iterator[str]:
        names = self.users.get(pod["name"], ())
        wanted = len(pod.get("asks", ())) if pod.get("expected") else len(pod.get("claims", ()))
        if len(names) != wanted:
            yield f"{pod['name']} has {len(names)} claims of {wanted}"
        for at, name in enumerate(names):
            if name not in self.given:
                yield f"{pod['name']}: claim {name} has nothing"
                continue
            for pool, device, *_ in self.given[name]:
                if pool not in (NETWORK, pod["node"]):
                    yield f"{pod['name']} on {pod['node']} is given {pool}/{device}"
            if name in self.decision.get("claims", {}):
                yield from self._fits(name, self._asked(pod, name, at))

    def _fits(self, name: str, ask: Entry) -> Iterator[str]:
        given = self.given[name]
        before = self.cluster.given.get(name)
        if before and not self.plan and [*map(list, before)] != [*map(list, given)]:
            yield f"claim {name} had {before}, and is given {given}"
            return
        options = ask.get("any") or [ask]
        option = options[given[0][2]] if given else {}
        if len(given) != option.get("count", 1) or len({it[2] for it in given}) != 1:
            yield f"claim {name} is given {given} for {ask}"
        devices = [self._device(pool, device) for pool, device, *_ in given]
        for device, (*_, amount) in zip(devices, given, strict=True):
            if not _suits(device, option, amount):
                yield f"claim {name} is given {device or given} for {option}"
        rails = [device.get("rail") for device in devices]
        wanted = {"same": 1, "distinct": len(rails)}.get(ask.get("constraint", ""))
        if wanted and len(set(rails)) != wanted:
            yield f"claim {name} has devices of rails {rails}"

    def _device(self, pool: str, name: str) -> Entry:
        listed = self.cluster.nodes.get(pool, {}).get("devices", ())
        if pool == NETWORK:
            listed = self.cluster.instance.get("network", ())
        return next((it for it in listed if it["name"] == name), {})

    def devices(self) -> Iterator[str]:
        """Yield devices and counters that are used twice at any time."""
        pods = {pod["name"]: pod for pod in self.all}
        holders = defaultdict[tuple[str, str], list[tuple[str, int, Stage | None]]](list)
        for claim, given in self.given.items():
            stage = self._stage_of([pods[it] for it in pods if claim in self.users.get(it, ())])
            for pool, device, _, amount in given:
                holders[pool, device].append((claim, amount, stage))
        added = {(it[0], it[1]) for each in self.decision.get("claims", {}).values() for it in each}
        for pool, name in sorted(added):
            device = self._device(pool, name)
            held = holders[pool, name]
            if device.get("shared"):
                used = load((amount, stage) for _, amount, stage in held)
                if used > device["shared"]:
                    yield f"{pool}/{name}: {used} of {device['shared']} are given to {held}"
            elif load((1, stage) for *_, stage in held) > 1:
                yield f"{pool}/{name} is given to {[claim for claim, *_ in held]}"
        for pool in {pool for pool, _ in added} - {NETWORK}:
            most = self.cluster.nodes.get(pool, {}).get("counter", 0)
            used = load(
                (self._device(of, name).get("uses", 0), stage)
                for (of, name), held in holders.items()
                if of == pool
                for *_, stage in held[:1]
            )
            if most and used > most:
                yield f"{pool}: {used} of the counter's {most}"

    def _stage_of(self, pods: Sequence[Entry]) -> Stage | None:
        stages = {self.cluster.stage(it) for it in pods}
        numbers = {None if it is None else it[:2] for it in stages}
        if len(numbers) != 1 or None in numbers:
            return None
        tree, number = next(it[:2] for it in stages if it is not None)
        return (tree, number, any(it is not None and it[2] for it in stages))


def _suits(device: Entry, option: Entry, amount: int) -> bool:
    """Return True if an existing device matches the option."""
    if not device or device.get("taint") or option.get("size") not in (None, device.get("size")):
        return False
    least = option.get("amount", 0)
    return amount >= max(1, least) if device.get("shared") else not least
