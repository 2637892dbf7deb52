"""Observer of devices: none may be allocated to two claims at any moment."""

from collections.abc import Sequence
from pathlib import Path

from e2e.faults.hostile.observer import Follower
from e2e.harness.devices import CLAIMS, DeviceId, devices_of
from e2e.harness.objects import Json


class ClaimObserver(Follower):
    """Observer; `wrongs` has a line for each device of two claims."""

    def __init__(self, kubeconfig: Path) -> None:
        super().__init__(kubeconfig, CLAIMS.path())
        self.wrongs: list[str] = []
        self.allocated = 0
        """Number of claims that ever had devices."""
        self._held: dict[str, list[DeviceId]] = {}

    def begin(self, objects: Sequence[Json]) -> None:
        self._held.clear()
        for obj in objects:
            self.see(obj)

    def see(self, obj: Json) -> None:
        meta, devices = obj["metadata"], devices_of(obj)
        self.allocated += bool(devices and not self._held.get(meta["uid"]))
        self._held[meta["uid"]] = devices
        for device in devices:
            count = sum(device in held for held in self._held.values())
            if count > 1:
                name = f"{meta['namespace']}/{meta['name']}"
                self.wrongs.append(f"device {device} of claim {name} has {count} claims")

    def forget(self, uid: str) -> None:
        self._held.pop(uid, None)
