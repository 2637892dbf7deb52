"""Groups: those that wait longest, and the node labels that they require."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from api.constants import (
    CONDITION_COMPOSITE_SCHEDULED,
    CONDITION_POD_GROUP_SCHEDULED,
    REASON_INVALID,
    REASON_SCHEDULER_ERROR,
)
from api.reading import dig, labels_of, mapping, mappings, text
from cli.doctor.findings import About, Check, Finding, Limited
from kube.base.clock import moment
from kube.client.meta import Json

LONGEST: Final = 5
"""Number of the longest waiting groups that are named."""

_MOST_KEYS: Final = 1000
"""Topology keys that are looked up. Groups with further ones are not checked for them."""

_SCHEDULED: Final = {CONDITION_POD_GROUP_SCHEDULED, CONDITION_COMPOSITE_SCHEDULED}


@dataclass(frozen=True, slots=True)
class WaitingGroup:
    """A group that waits, the start of its wait, and the reason."""

    about: About
    since: datetime
    reason: str
    message: str
    impossible: bool


@dataclass(slots=True)
class Groups:
    """A summary of all groups, collected while they are read. Its size has a limit."""

    waiting: int = 0
    faulty: Limited = field(default_factory=lambda: Limited("groups"))
    asked: dict[tuple[str, bool], About] = field(default_factory=dict)
    """Node label and whether it is only preferred -> the first group that names it."""
    _longest: list[tuple[float, int, WaitingGroup]] = field(default_factory=list)

    def see(self, kind: str, obj: Json) -> None:
        """Add one group to the summary."""
        about = About.of(kind, obj)
        for one in mappings(obj, "spec", "schedulingConstraints", "topology"):
            key = (text(one.get("key")), one.get("preferred") is True)
            if key in self.asked or len(self.asked) < _MOST_KEYS:
                self.asked.setdefault(key, about)
        waiting = waiting_of(about, obj)
        if waiting is None or dig(obj, "metadata", "deletionTimestamp"):
            return
        self.waiting += 1
        if fault := _fault(waiting):
            self.faulty.add(fault)
            return
        # The heap keeps those that wait longest. Its first item is the youngest of them.
        # The number decides between equal times: `WaitingGroup` has no order.
        item = (-waiting.since.timestamp(), self.waiting, waiting)
        if len(self._longest) < LONGEST:
            heapq.heappush(self._longest, item)
        else:
            heapq.heappushpop(self._longest, item)

    def findings(self, now: datetime) -> Iterator[Finding]:
        """Yield the faulty groups, and those that wait longest."""
        yield from self.faulty.findings()
        for _, _, one in sorted(self._longest, reverse=True):
            hours = (now - one.since).total_seconds() / 3600
            yield Check("groups", one.about).info(
                f"it has been waiting for {hours:.1f} hours ({one.reason}): {one.message}",
                _explain(one.about),
            )
        if self.waiting > LONGEST:
            yield Check("groups", About("Cluster", "all")).info(
                f"{self.waiting} groups are waiting in total"
            )


def waiting_of(about: About, obj: Json) -> WaitingGroup | None:
    """Return why a group waits; None if it does not wait, or has no condition yet."""
    blocker = mapping(dig(obj, "status", "blocker"))
    for one in mappings(obj, "status", "conditions"):
        if one.get("type") in _SCHEDULED and one.get("status") != "True":
            since = moment(text(one.get("lastTransitionTime")))
            if since is None:
                return None
            message = text(blocker.get("summary")) or text(one.get("message"))
            return WaitingGroup(
                about, since, text(one.get("reason")), message, blocker.get("impossible") is True
            )
    return None


def _explain(about: About) -> str:
    return f"muster explain {about.kind.lower()}/{about.name} -n {about.namespace}"


def _fault(waiting: WaitingGroup) -> Finding | None:
    """Return the finding if the group cannot start until its owner or an administrator acts."""
    check = Check("groups", waiting.about)
    if waiting.reason == REASON_INVALID:
        return check.warning(waiting.message, "correct the group as the message states")
    if waiting.reason == REASON_SCHEDULER_ERROR:
        return check.warning(waiting.message, _explain(waiting.about))
    if waiting.impossible:
        return check.warning(
            f"it cannot start on the nodes of this cluster: {waiting.message}",
            "make the change that the message names",
        )
    return None


@dataclass(slots=True)
class NodeLabels:
    """Number of nodes with each of the labels that groups name.

    A key that is an attribute of devices is not reported as a missing label.
    """

    asked: Mapping[tuple[str, bool], About]
    nodes: int = 0
    having: Counter[str] = field(default_factory=Counter)
    of_devices: set[str] = field(default_factory=set)

    def see(self, nodes: Iterable[Mapping[str, Any]]) -> None:
        """Count the labels of a page of nodes."""
        keys = {key for key, _ in self.asked}
        for node in nodes:
            self.nodes += 1
            self.having.update(keys & labels_of(node).keys())

    @property
    def may_be_attributes(self) -> bool:
        """True if nodes lack a label that could be the qualified name of an attribute."""
        return any("/" in key and self.having[key] < self.nodes for key, _ in self.asked)

    def see_slice(self, obj: Json) -> None:
        """Add the attributes of one ResourceSlice."""
        driver, keys = text(dig(obj, "spec", "driver")), {key for key, _ in self.asked}
        for device in mappings(obj, "spec", "devices"):
            names = mapping(device.get("attributes"))
            self.of_devices |= keys & {n if "/" in n else f"{driver}/{n}" for n in names}

    def findings(self) -> Iterator[Finding]:
        """Yield the labels that no node has, and those that some nodes lack."""
        found = Limited("topology")
        for (key, preferred), about in self.asked.items():
            have = self.having[key]
            if key in self.of_devices:
                continue
            if have < max(self.nodes, 1):
                found.add(self._missing(key, about, have, preferred=preferred))
        yield from found.findings()

    def _missing(self, key: str, about: About, have: int, *, preferred: bool) -> Finding:
        check = Check("topology", about)
        label = f"kubectl label node NODE {key}=VALUE, or create the group again with another key"
        if have:
            return check.info(
                f"{self.nodes - have} of {self.nodes} nodes do not have the label {key} of its"
                " topology: it cannot be scheduled there",
                label,
            )
        if preferred:
            problem = f"no node has the label {key} of its preferred topology, which has no effect"
            return check.warning(problem, label)
        # The group of a user, and no fault of the installation.
        return check.warning(f"no node has the label {key} of its topology: it cannot start", label)
