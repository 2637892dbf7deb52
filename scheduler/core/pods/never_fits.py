"""Reasons why no node takes pods of a shape, whatever runs there; such pods are cheap."""

from __future__ import annotations

from typing import Final

from scheduler.core.nodes.node_table import NodeTable
from scheduler.core.pods.shapes import Shape

_NAMED: Final = 3
"""Limit of the resources that the message names."""


def never_fits(shape: Shape, nodes: NodeTable) -> str:
    """Return the reason and the remedy, or an empty string if a node may take such pods."""
    if shape.requirements.unsupported:
        features = ", ".join(shape.requirements.unsupported)
        return (
            f"its pods use what is not supported yet: {features};"
            " do without, or leave them to another scheduler"
        )
    if shape.requirements.excess:
        return f"a pod has {shape.requirements.excess}: use fewer"
    missing = shape.request.missing
    # Without any node, every resource would be missing: that message would not help.
    if missing and nodes.row_of:
        names = ", ".join(missing[:_NAMED])
        more = f" and {len(missing) - _NAMED} more resources" if len(missing) > _NAMED else ""
        return f"no node offers {names}{more}: ask for what nodes offer, or add nodes that do"
    return ""
