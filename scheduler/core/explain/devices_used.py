"""Numbers of devices that pods use, by device class."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from scheduler.core.devices.table import DeviceTable


def devices_used(table: DeviceTable, uids: Iterable[str]) -> Counter[str]:
    """Return how many devices these pods' claims have, assumed or not, by class; no adminAccess."""
    found: Counter[str] = Counter()
    # A set: pods may share a claim, whose devices count once.
    for key in {key for uid in uids for key in table.consumers.claims_of(uid)}:
        allocation, claim = table.allocation(key), table.claims.get(key)
        if allocation is None:
            continue
        # The scheduler creates the claim for extended resources only after it chose the devices.
        ask = allocation.ask if claim is None else claim.ask
        if ask is None:
            continue
        options = (option for request in ask.requests for option in request.options)
        # An allocation names requests; only the ask knows their classes.
        classes = {option.name: option.device_class for option in options}
        found.update(classes.get(d.request, "?") for d in allocation.devices if not d.admin)
    return found
