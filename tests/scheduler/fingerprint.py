"""A fingerprint of a state: all that it contains, but for caches, which only save time."""

from collections import Counter, deque
from collections.abc import Mapping
from typing import Any, Final
from weakref import WeakSet, WeakValueDictionary

import numpy as np

from scheduler.core.state.state import State

CACHES: Final = frozenset(
    {
        "_cached", "_shared_slots", "_usages",  # framework: results by shape
        "cache",  # of a shape
        "_columns",  # node labels, by column on first use
        "_merged", "_generation",  # sums of nominations
        "_changed_at", "stamp",  # of the node table: for caches
        "_requests", "computed",  # interned requests
        "_ids",  # the next match id: they are never reused
        "__weakref__",
        "_untidy",  # of devices: something may be due
        "protection",  # of units: the settings, and the time of the last decision
    }
)  # fmt: skip
"""Attributes that are left out."""

_OF_CLASS: Final = {
    "Topologies": {"_known", "_of_groups", "_unlabelled"},  # domains by key, on first use
    # These rise with each change, undone or not.
    "ExclusiveUses": {"version"},
    "DeviceTable": {"claims_version"},
}
"""Attributes of one class that are left out."""

_UNORDERED: Final = ("ExclusiveUses", "MatchCounts", "ResourceTable", "StageCapacity")
"""Classes with counts whose order changes when a trial is undone, as in each decision."""


def fingerprint(state: State) -> list[str]:
    """Return one line for each value that can be reached from the state, by its way there."""
    lines: list[str] = []
    numbers: dict[int, int] = {}
    kept: list[Any] = []
    left: deque[tuple[str, Any]] = deque([("state", state)])
    while left:
        way, value = left.popleft()
        if id(value) in numbers and not _plain(value):
            lines.append(f"{way} = #{numbers[id(value)]}")
            continue
        numbers[id(value)] = len(numbers)
        kept.append(value)
        lines.append(f"{way} = {_words(value)}")
        left.extend((f"{way}.{name}", each) for name, each in _parts(value))
    return lines


def _plain(value: Any) -> bool:
    return value is None or isinstance(value, str | bytes | int | float | tuple | frozenset)


def _words(value: Any) -> str:
    if isinstance(value, np.ndarray):
        return f"{value.dtype}{value.shape} {value.tobytes().hex()}"
    if value is None or isinstance(value, str | bytes | int | float):
        return repr(value)
    if isinstance(value, Mapping | list | tuple | set | frozenset | deque):
        return f"{type(value).__name__} of {len(value)}"
    return type(value).__name__


def _parts(value: Any) -> list[tuple[str, Any]]:
    if isinstance(value, Counter | dict):
        pairs = enumerate(value.items())
        return [it for at, (key, each) in pairs for it in ((f"key{at}", key), (f"[{at}]", each))]
    if isinstance(value, set | frozenset):
        return [(f"{{{at}}}", each) for at, each in enumerate(sorted(value, key=repr))]
    if isinstance(value, list | tuple | deque):
        return [(f"[{at}]", each) for at, each in enumerate(value)]
    if not type(value).__module__.startswith("scheduler.") or isinstance(
        value, WeakSet | WeakValueDictionary
    ):
        return []
    left_out = CACHES | _OF_CLASS.get(type(value).__name__, set())
    names = [*getattr(value, "__dict__", ())]
    for cls in type(value).__mro__:
        slots = getattr(cls, "__slots__", ())
        names += (slots,) if isinstance(slots, str) else slots
    found = (name for name in dict.fromkeys(names) if name not in left_out)
    parts = [(name, getattr(value, name)) for name in found if hasattr(value, name)]
    if type(value).__name__ in _UNORDERED:
        return [(name, _ordered(each)) for name, each in parts]
    return parts


def _ordered(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    return {key: _ordered(value[key]) for key in sorted(value, key=repr)}
