"""The documents of manifests: YAML from a text or files, or JSON values, checked before use."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Final

import yaml
from yaml.loader import SafeLoader

from kube.base.errors import ConfigError
from scheduler.core.values.search_budget import nothing

Json = dict[str, Any]

MOST_VALUES: Final = 100_000
"""Values in one document of a question to the console, each use of a YAML alias counted. A document
with more is rejected."""

DEEPEST: Final = 40
"""Levels of lists and objects in one document of manifests. A deeper one is rejected."""

_PART: Final = 1_000
"""Values that are checked between two pauses."""

_LONGEST: Final = 500
"""Characters of the YAML parser's message that an error shows."""

_LARGEST: Final = (1 << 63) - 1
"""The largest integer: API servers have int64."""


def documents_of(text: str, path: str, pause: Callable[[], None] = nothing) -> Iterator[Json]:
    """Yield the YAML documents of a text. Raises ConfigError, which names the field at `path`."""

    class Loader(SafeLoader):
        """The parser in Python, with a limit: libyaml's may exhaust the stack of the process."""

        depth = 0

        def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
            pause()
            if self.depth > DEEPEST:
                raise yaml.YAMLError(f"too deep: must have at most {DEEPEST} levels")
            self.depth += 1
            found = super().compose_node(parent, index)
            self.depth -= 1
            return found

    try:
        loaded = list(yaml.load_all(text, Loader))
    except (yaml.YAMLError, ValueError) as error:
        raise ConfigError(f"{path}: {str(error)[:_LONGEST]}") from error
    yield from objects_among((each for each in loaded if each is not None), path)


def objects_among(values: Iterable[Any], path: str) -> Iterator[Json]:
    """Yield the values, which must be objects of Kubernetes. Raises ConfigError."""
    for at, document in enumerate(values):
        metadata = document.get("metadata", {}) if isinstance(document, dict) else None
        if metadata is None or not isinstance(document.get("kind"), str):
            raise ConfigError(f"{path}: document {at}: Object 'Kind' is missing")
        if not isinstance(metadata, dict):
            raise ConfigError(f"{path}: document {at}: metadata must be an object")
        yield document


def documents_in(files: Iterable[Path]) -> Iterator[Json]:
    """Yield all YAML documents of the files. Raises ConfigError, which names the file."""
    for file in files:
        try:
            text = file.read_text()
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"{file}: {error}") from error
        yield from documents_of(text, str(file))


def check_values(
    value: Any, path: str, most: int = MOST_VALUES, pause: Callable[[], None] = nothing
) -> int:
    """Return how many values the document has, at most `most`.

    Raises ConfigError for one with more or deeper ones, and for what is no JSON of an API server.
    """
    # Without recursion, so that no depth can exhaust the stack.
    found, left = 0, [(value, path, 0)]
    while left:
        each, at, depth = left.pop()
        found += 1
        if found % _PART == 0:
            pause()
        if found > most:
            raise ConfigError(f"{path}: too many values: must have at most {most}")
        if depth > DEEPEST:
            raise ConfigError(f"{at}: too deep: must have at most {DEEPEST} levels")
        if isinstance(each, dict):
            left += [(inner, f"{at}.{_key(key, at)}", depth + 1) for key, inner in each.items()]
        elif isinstance(each, list):
            left += [(inner, f"{at}[{index}]", depth + 1) for index, inner in enumerate(each)]
        else:
            _check_scalar(each, at)
    return found


def _key(key: Any, at: str) -> str:
    if not isinstance(key, str):
        raise ConfigError(f"{at}: the key {str(key)[:_LONGEST]} must be a string: put it in quotes")
    return key[:_LONGEST]


def _check_scalar(value: Any, at: str) -> None:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if number and not (math.isfinite(value) and abs(value) <= _LARGEST):
        raise ConfigError(f"{at}: must be a number of at most {_LARGEST}")
    if not (value is None or isinstance(value, str | int | float | bool)):
        raise ConfigError(f"{at}: must be a string: put it in quotes")
