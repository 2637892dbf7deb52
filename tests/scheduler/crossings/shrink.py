"""Shrinks an instance that fails, and writes it as a test of a few lines."""

from collections.abc import Callable, Iterator
from pprint import pformat
from typing import Any

from tests.scheduler.crossings.draw import Instance


def shrunk(instance: Instance, fails: Callable[[Instance], bool], most: int = 600) -> Instance:
    """Return a minimal instance that fails as well."""
    smaller = True
    while smaller and most > 0:
        smaller = False
        for candidate in _smaller(instance):
            most -= 1
            if most <= 0:
                break
            if fails(candidate):
                instance, smaller = candidate, True
                break
    return instance


def _smaller(value: Any) -> Iterator[Any]:
    """Yield values with one part less, or a smaller number; large parts first."""
    if isinstance(value, dict):
        for key in sorted(value.keys() - {"name", "cpu"}):
            yield {each: it for each, it in value.items() if each != key}
        yield from (value | {key: less} for key, part in value.items() for less in _smaller(part))
    elif isinstance(value, list):
        for size in sorted({len(value) // 2, 1} - {0}, reverse=True):
            yield from (value[:at] + value[at + size :] for at in range(0, len(value), size))
        for at, part in enumerate(value):
            yield from ([*value[:at], less, *value[at + 1 :]] for less in _smaller(part))
    elif isinstance(value, int) and not isinstance(value, bool) and value > 1:
        yield value - 1


def as_test(instance: Instance, found: str) -> str:
    """Return the lines of a test that fails for the instance."""
    shown = pformat(instance, width=90, sort_dicts=False, compact=True)
    lines = "\n".join(f"    {line}" for line in shown.splitlines())
    name = "".join(it if it.isalnum() else "_" for it in found.lower())[:60].strip("_")
    return f"def test_{name}() -> None:\n    assert not play(\n    {lines.lstrip()}\n    )[0]\n"
