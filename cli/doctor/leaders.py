"""Leases: the leader, whether it still renews, and its clock compared to the API server's.

A lease is read twice. A lease that was renewed in between is alive whatever its time. That time
then shows how the clock of its holder compares.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from api.constants import CONTROLLER_COMPONENT, SCHEDULER_COMPONENT
from api.reading import dig, integer, text
from cli.doctor.findings import About, Check, Finding
from cli.trees.listing import get_or_none
from kube.base.clock import moment
from kube.client.client import Client
from kube.client.meta import Json
from kube.client.resources import LEASES

NAMES: Final = {CONTROLLER_COMPONENT: "controller", SCHEDULER_COMPONENT: "scheduler"}
"""Name of each lease, which is that of a component -> the part that it elects a leader for."""

TOLERANCE: Final = timedelta(seconds=10)
"""Difference between clocks above which there is a finding."""


@dataclass(frozen=True, slots=True)
class LeaseView:
    """The fields of a lease; times are by the clock of its holder."""

    holder: str
    renewed: datetime | None
    duration: timedelta

    @classmethod
    def of(cls, lease: Json) -> LeaseView:
        # Limited to a day below: a lease may have any number, and a timedelta can overflow.
        seconds = integer(dig(lease, "spec", "leaseDurationSeconds")) or 0
        return cls(
            text(dig(lease, "spec", "holderIdentity")),
            moment(text(dig(lease, "spec", "renewTime"))),
            timedelta(seconds=max(0, min(seconds, 86_400))),
        )


@dataclass(frozen=True, slots=True)
class Readings:
    """Two readings of the leases, by name, and the API server's time of the second."""

    first: Mapping[str, LeaseView | None]
    second: Mapping[str, LeaseView | None]
    apart: timedelta
    now: datetime


async def read_leases(client: Client, namespace: str) -> dict[str, LeaseView | None]:
    """Return each lease; None for one that does not exist. Raises kube errors."""
    found = await asyncio.gather(*(get_or_none(client, LEASES, it, namespace) for it in NAMES))
    views = (None if lease is None else LeaseView.of(lease) for lease in found)
    return dict(zip(NAMES, views, strict=True))


def check_leases(read: Readings, namespace: str) -> Iterator[Finding]:
    """Yield the leader of each lease, and its clock's difference."""
    for name, part in NAMES.items():
        check = Check("leases", About("Lease", name, namespace))
        start = f"check that the {part} runs, and check its log"
        before, after = read.first.get(name), read.second.get(name)
        if after is None:
            yield check.error(f"it does not exist: no {part} has ever been the leader", start)
        elif not after.holder:
            yield check.error(f"it has no holder: no {part} is active", start)
        elif before is not None and before.renewed != after.renewed:
            yield from _alive(check, after, read)
        else:
            yield from _unchanged(check, after, read, start)


def _alive(check: Check, lease: LeaseView, read: Readings) -> Iterator[Finding]:
    yield check.info(f"{lease.holder} is the leader")
    if lease.renewed is None:
        return
    # The renewal happened after the first reading and before the second: a correct clock's time
    # lies between them.
    ahead, behind = lease.renewed - read.now, read.now - read.apart - lease.renewed
    for by, sign in ((ahead, 1), (behind, -1)):
        if by > TOLERANCE:
            yield wrong_clock(check.about, f"the clock of {lease.holder}", sign * by)


def wrong_clock(about: About, whose: str, ahead: timedelta) -> Finding:
    """Return the finding for a clock that is ahead of the API server's, or behind if negative."""
    how = "ahead of" if ahead > timedelta() else "behind"
    return Check("clocks", about).warning(
        f"{whose} is {abs(ahead).total_seconds():.0f} s {how} the API server's",
        "synchronize the clocks of the nodes (NTP): its timestamps are wrong",
    )


# The lease was not renewed between the readings. It may still be valid: the duration can be longer
# than the time between them.
def _unchanged(check: Check, lease: LeaseView, read: Readings, start: str) -> Iterator[Finding]:
    since = read.now - lease.renewed if lease.renewed is not None else None
    if since is not None and since <= lease.duration:
        yield check.info(f"{lease.holder} is the leader")
        return
    said = f"last {since.total_seconds():.0f} s ago" if since is not None else "never"
    yield check.error(f"{lease.holder} holds it but does not renew it ({said})", start)
