"""Requests of each shape, as a column for each resource that a decision asked for."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from scheduler.core.nodes.node_table import Ints
from scheduler.core.nodes.resource_table import ResourceTable
from scheduler.core.pods.shapes import Shape


class ShapeRequests:
    """Columns by index of the shape.

    A pod with a volume of its own has a shape of its own. A new shape is added to the columns,
    which are not rebuilt.
    """

    def __init__(self, resources: ResourceTable, shapes: Mapping[int, Shape]) -> None:
        """Keep the known `shapes`, by index; call `changed` for each new one.

        The entry of a deleted shape is never read.
        """
        self._resources = resources
        self._shapes = shapes
        self._columns: dict[int, Ints] = {}
        self._epoch = -1

    def of(self, resource: int) -> Ints:
        """Return the requests of each shape for the resource, (at least the highest index + 1,)."""
        # Resource indices have changed, so the columns are about other resources.
        if self._epoch != self._resources.epoch:
            self._epoch = self._resources.epoch
            self._columns.clear()
        column = self._columns.get(resource)
        if column is None:
            column = np.zeros(max(self._shapes, default=0) + 1, np.int64)
            for index, shape in self._shapes.items():
                column[index] = dict(shape.request.demands).get(resource, 0)
            self._columns[resource] = column
        return column

    def changed(self, shape: Shape) -> None:
        """Update the columns for a shape that is new or whose index another shape had before."""
        if self._epoch != self._resources.epoch or not self._columns:
            return
        amounts = dict(shape.request.demands)
        for resource, before in self._columns.items():
            # Double the column: padding it for each new shape would take quadratic time.
            missing = shape.index + 1 - len(before)
            column = np.pad(before, (0, missing + shape.index)) if missing > 0 else before
            column[shape.index] = amounts.get(resource, 0)
            self._columns[resource] = column
