"""The simple JSON paths of printer columns."""

import json
import re
from functools import lru_cache
from typing import Any

_STEP = re.compile(
    r"\.?\[\?\(@\.(?P<field>[\w.\-/]+)\s*==\s*[\"'](?P<value>[^\"']*)[\"']\s*\)\]"
    r"|\.?\[(?P<index>-?\d+|\*)\]"
    r"|\.?\[['\"](?P<quoted>[^'\"]+)['\"]\]"
    r"|\.(?P<name>(?:\\.|[^.\[\]\\])+)"
)
Step = tuple[str, str, str]


@lru_cache(maxsize=1024)
def parse(path: str) -> tuple[Step, ...]:
    """Parse the steps of a path. Raises ValueError for a path that is not simple."""
    text, steps, at = path.strip().removeprefix("{").removesuffix("}").removeprefix("$"), [], 0
    while at < len(text):
        found = _STEP.match(text, at)
        if not found:
            raise ValueError(f"unsupported JSON path: {path}")
        at = found.end()
        if found["field"]:
            steps.append(("filter", found["field"], found["value"]))
        elif found["index"]:
            steps.append(("index", found["index"], ""))
        else:
            name = found["quoted"] or found["name"].replace("\\.", ".")
            steps.append(("field", name, ""))
    return tuple(steps)


def find(obj: Any, path: str) -> list[Any]:
    """Return all values at a path. Raises ValueError for a path that is not simple."""
    values = [obj]
    for step in parse(path):
        values = [found for value in values for found in _descend(value, step)]
    return values


def _descend(value: Any, step: Step) -> list[Any]:
    kind, name, wanted = step
    if kind == "field":
        return [value[name]] if isinstance(value, dict) and name in value else []
    if not isinstance(value, list):
        return list(value.values()) if isinstance(value, dict) and name == "*" else []
    if kind == "filter":
        return [item for item in value if find(item, "." + name) == [wanted]]
    if name == "*":
        return value
    index = int(name)
    return [value[index]] if -len(value) <= index < len(value) else []


def text(obj: Any, path: str) -> str | None:
    """Return the values at a path as `kubectl get` prints them, None if there are none."""
    found = find(obj, path)
    if not found:
        return None
    return " ".join(
        v if isinstance(v, str) else json.dumps(v, separators=(",", ":")) for v in found
    )
