"""Reasons why no node takes pods of a shape, whatever runs there; such pods are cheap."""

from __future__ import annotations

from typing import Final

from scheduler.core.nodes.node_table import NodeTable
from scheduler.core.pods.shapes import Shape

_NAMED: Final = 3
"""Limit of the resources that the message names."""


def is_only_missing(shape: Shape, nodes: NodeTable) -> bool:
    """Return True if no node takes such pods because none offers a resource that they request."""
    wants = shape.requirements
    return bool(shape.request.missing and nodes.row_of) and not (wants.unsupported or wants.excess)


def never_fits(shape: Shape, nodes: NodeTable) -> str:
    """Return the reason and the remedy, or an empty string if a node may take such pods."""
    if shape.requirements.unsupported:
        features = ", ".join(shape.requirements.unsupported)
        return (
            f"The pods use features that are not supported: {features}."
            " Remove these, or use another scheduler."
        )
    if shape.requirements.excess:
        return f"A pod has {shape.requirements.excess}. Use fewer."
    missing = shape.request.missing
    # Without any node, every resource would be missing: that message would not help.
    if missing and nodes.row_of:
        names = ", ".join(missing[:_NAMED])
        more = f" and {len(missing) - _NAMED} more resources" if len(missing) > _NAMED else ""
        return f"No node offers {names}{more}. Request other resources, or add such nodes."
    return ""
