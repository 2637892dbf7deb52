"""The container images on each node, by name, which the score ImageLocality reads.

A cluster has millions of pairs of node and image, so each is kept twice as a number of four bytes.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import islice
from typing import Final

import numpy as np
import numpy.typing as npt

Rows = npt.NDArray[np.int32]

MOST_NAMES: Final = 256
"""Limit of names of images that count for one node; the kubelet publishes 50 images by default."""


@dataclass(slots=True)
class _Image:
    """An image: its size in bytes, and the rows of the nodes that have it, in no order."""

    name: str
    size: int
    rows: array[int] = field(default_factory=lambda: array("i"))


class NodeImages:
    """The images of all nodes, by row. `version` changes with them."""

    def __init__(self) -> None:
        self.version = 0
        self._images: list[_Image | None] = []
        self._vacant: list[int] = []
        self._number_of: dict[str, int] = {}
        self._on: dict[int, array[int]] = {}

    def __len__(self) -> int:
        """Return the number of different images."""
        return len(self._number_of)

    def set(self, row: int, images: Iterable[tuple[str, int]]) -> None:
        """Replace the images of a node: names with sizes in bytes; the first MOST_NAMES count."""
        # As in kube-scheduler, the first node that reports an image decides its size.
        sizes = dict(islice(images, MOST_NAMES))
        numbers = self._on.get(row)
        # The usual case, as a node's status changes often: the same images in the same order.
        if numbers is not None and list(map(self._number_of.get, sizes)) == numbers.tolist():
            return
        before = {self._name_of(number): number for number in numbers or ()}
        if before.keys() == sizes.keys():
            return
        self.version += 1
        for name in before.keys() - sizes.keys():
            self._drop(before[name], row)
        for name in sizes.keys() - before.keys():
            before[name] = self._add(name, sizes[name], row)
        if sizes:
            self._on[row] = array("i", (before[name] for name in sizes))
        else:
            del self._on[row]

    def clear(self, row: int) -> None:
        """Forget a node."""
        self.set(row, ())

    def on(self, name: str) -> tuple[int, Rows]:
        """Return the size of an image in bytes, and the rows of the nodes that have it."""
        number = self._number_of.get(name)
        image = None if number is None else self._images[number]
        if image is None:
            return 0, np.zeros(0, np.int32)
        # A copy: an array cannot grow while a view of it exists.
        return image.size, np.array(image.rows, np.int32)

    def _name_of(self, number: int) -> str:
        image = self._images[number]
        return "" if image is None else image.name

    def _add(self, name: str, size: int, row: int) -> int:
        number = self._number_of.get(name)
        if number is None:
            number = self._vacant.pop() if self._vacant else len(self._images)
            if number == len(self._images):
                self._images.append(None)
            self._number_of[name] = number
            self._images[number] = _Image(name, size)
        image = self._images[number]
        assert image is not None
        image.rows.append(row)
        return number

    def _drop(self, number: int, row: int) -> None:
        image = self._images[number]
        assert image is not None
        # The last row takes the place of the removed one: an image may be on all nodes.
        at = int(np.flatnonzero(np.array(image.rows, np.int32) == row)[0])
        image.rows[at] = image.rows[-1]
        image.rows.pop()
        if not image.rows:
            del self._number_of[image.name]
            self._images[number] = None
            self._vacant.append(number)
