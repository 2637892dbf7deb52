"""Errors of the lab's input."""

import csv
from collections.abc import Iterator
from contextlib import contextmanager

import yaml

from kube.base.errors import ConfigError


class LabError(ConfigError):
    """Input that cannot be used. The text names the file, the line and the field."""


@contextmanager
def input_of(place: str) -> Iterator[None]:
    """Raise LabError for input that cannot be read or parsed; its text begins with `place`."""
    try:
        yield
    except (OSError, ValueError, RecursionError, yaml.YAMLError, csv.Error) as error:
        raise LabError(f"{place}: {error}") from error
