"""ImageLocality: prefers nodes that have the images of the pod, for pods without a group."""

from __future__ import annotations

from collections import Counter
from typing import Final

import numpy as np

from scheduler.core.framework.plugin import Plugin
from scheduler.core.nodes.node_table import Ints, NodeTable
from scheduler.core.pods.shapes import Cached

_LEAST: Final = 23 << 20
"""Bytes of images up to which a node gets no points."""

_MOST: Final = 1000 << 20
"""Bytes of an image from which a node gets all points."""

_MOST_CACHED: Final = 64
"""Limit of different sets of images with cached points of all nodes."""


class ImageLocality(Plugin):
    """Points of nodes for the images that they have; cached until the images of nodes change.

    The images belong to a pod, not to its shape, so the framework does not call this plugin.
    """

    name = "ImageLocality"
    weight = 1000

    def __init__(self, nodes: NodeTable) -> None:
        self._nodes = nodes
        self._cached: dict[tuple[str, ...], Cached[Ints | None]] = {}

    def points(self, images: tuple[str, ...]) -> Ints | None:
        """Return the points of each node (N,), 0 to 100, or None if no node has an image."""
        if not images:
            return None
        nodes, cached = self._nodes, self._cached.pop(images, None) or Cached()
        self._cached[images] = cached
        if len(self._cached) > _MOST_CACHED:
            del self._cached[next(iter(self._cached))]
        key = (nodes.images.version, nodes.size, len(nodes.row_of))
        if cached.key != key:
            cached.value, cached.key = self._points(images), key
        return cached.value

    def _points(self, images: tuple[str, ...]) -> Ints | None:
        nodes, total = self._nodes, np.zeros(self._nodes.size, np.int64)
        for name, uses in Counter(images).items():
            size, rows = nodes.images.on(name)
            # An image on few nodes counts less: otherwise all its pods would go to these.
            total[rows] += int(size * (len(rows) / len(nodes.row_of))) * uses if len(rows) else 0
        most = _MOST * len(images)
        points: Ints = 100 * (np.clip(total, _LEAST, most) - _LEAST) // (most - _LEAST)
        return points if points.any() else None
