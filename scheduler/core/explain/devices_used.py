"""How many devices of each class pods use, each claim counted once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from scheduler.core.devices.table import DeviceTable


def devices_used(table: DeviceTable, uids: Iterable[str]) -> Counter[str]:
    """By device class, what the claims of these pods are given, or are assumed to be.

    Devices for administration are left out: others may have them, too.
    """
    found: Counter[str] = Counter()
    for key in {key for uid in uids for key in table.consumers.claims_of(uid)}:
        allocation, claim = table.allocation(key), table.claims.get(key)
        # That for extended resources is made after it is decided what it is given.
        if allocation is None:
            continue
        ask = allocation.ask if claim is None else claim.ask
        if ask is None:
            continue
        options = (option for request in ask.requests for option in request.options)
        classes = {option.name: option.device_class for option in options}
        found.update(classes.get(d.request, "?") for d in allocation.devices if not d.admin)
    return found
