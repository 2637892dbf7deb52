"""The images of a pod, by the names under which nodes publish them."""

from __future__ import annotations

from collections.abc import Iterator
from sys import intern
from typing import Final

import msgspec

from kube.client.decoding import Decoder
from scheduler.decoding.objects import PodSpec

MOST_IMAGES: Final = 32
"""Images of a pod that count for its score; further ones do not."""

_LONGEST: Final = 512
"""Characters of an image's name. A longer one does not count, and nodes publish none."""


class _ImageVolume(msgspec.Struct):
    """A volume that is an image."""

    reference: str = ""


_image_volume: Final = Decoder(_ImageVolume)


def images_of(spec: PodSpec) -> tuple[str, ...]:
    """Return the images of a pod's containers and volumes, one for each use, with their tags."""
    found = [_tagged(name) for name in _names(spec)]
    return tuple(intern(name) for name in found[:MOST_IMAGES] if len(name) <= _LONGEST)


def _names(spec: PodSpec) -> Iterator[str]:
    for container in (*spec.init_containers, *spec.containers):
        yield container.image
    for volume in spec.volumes:
        if "image" in volume:
            yield _image_volume(volume["image"]).reference


def _tagged(name: str) -> str:
    """Return the name with the tag that a container runtime adds to one without any."""
    return name if name.rfind(":") > name.rfind("/") else f"{name}:latest"
