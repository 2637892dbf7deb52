"""Variants: the same trace and cluster with other settings of the scheduling.

The name of a variant has its parts with "+" in between, as in "spread+starvation" or
"preferred+nodes=20"; without parts it is Muster with its defaults.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Final, Literal

from analysis.lab.amounts import seconds_of
from analysis.lab.cluster import MOST_NODES
from analysis.lab.errors import LabError, input_of
from scheduler.core.values.profiles import Profile

Order = Literal["muster", "one-by-one", "in-order"]


@dataclass(frozen=True, slots=True)
class Variant:
    """The settings of a variant. `order` is Muster's own or a baseline.

    - one-by-one: each pod by itself, as a scheduler without gangs does. A job that is partial for
      `give_up` seconds releases its nodes and arrives again.
    - in-order: complete gangs, first come, first served within a priority; none passes another.
    """

    name: str = "muster"
    order: Order = "muster"
    scoring: Profile = "pack"
    preemption: bool = True
    starvation: bool = False
    topology: Literal["", "required", "preferred", "none"] = ""
    priorities: bool = True
    nodes: int = 0
    give_up: float = 1800.0


PARTS: Final[dict[str, dict[str, Any]]] = {
    "muster": {},
    "pack": {"scoring": "pack"},
    "spread": {"scoring": "spread"},
    "one-by-one": {"order": "one-by-one"},
    "in-order": {"order": "in-order", "preemption": False},
    "starvation": {"starvation": True},
    "no-preemption": {"preemption": False},
    "no-priorities": {"priorities": False},
    "required": {"topology": "required"},
    "preferred": {"topology": "preferred"},
    "no-topology": {"topology": "none"},
}


def variant_of(written: str) -> Variant:
    """Parse the name of a variant. Raises LabError, which lists the parts."""
    found = Variant(name=written)
    for part in written.split("+"):
        name, equals, value = part.partition("=")
        if name == "nodes" and equals:
            found = replace(found, nodes=_nodes(value))
        elif name == "give-up" and equals:
            with input_of("variant: give-up"):
                found = replace(found, give_up=seconds_of(value))
        elif part in PARTS:
            found = replace(found, **PARTS[part])
        else:
            raise LabError(
                f"variant {written!r}: unknown part {part!r}: use {', '.join(PARTS)},"
                " nodes=N and give-up=TIME, joined by +"
            )
    return found


def _nodes(value: str) -> int:
    if not value.isdecimal() or not 1 <= int(value) <= MOST_NODES:
        raise LabError(f"variant: nodes={value}: must be between 1 and {MOST_NODES}, inclusive")
    return int(value)
