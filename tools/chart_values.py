"""Describe the values of the chart: `python -m tools.chart_values charts/muster`."""

import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any


def write(chart: Path) -> None:
    """Describe each value in `values.schema.json` by the comment above it in `values.yaml`."""
    path = chart / "values.schema.json"
    schema = json.loads(path.read_text("utf-8"))
    for value, text in descriptions((chart / "values.yaml").read_text("utf-8")).items():
        _property(schema, value)["description"] = text
    path.write_text(json.dumps(schema, indent=2) + "\n", "utf-8")


def descriptions(values: str) -> dict[tuple[str, ...], str]:
    """Return the comment above each value, by the path of the value."""
    found: dict[tuple[str, ...], str] = {}
    path: list[str] = []
    comment: list[str] = []
    for line in values.splitlines():
        text = line.strip()
        if text.startswith("#"):
            comment.append(text.removeprefix("#").strip())
            continue
        if text and not text.startswith("- "):
            path = [*path[: (len(line) - len(text)) // 2], text.partition(":")[0]]
            if comment:
                found[tuple(path)] = " ".join(comment)
        comment.clear()
    return found


def _property(schema: dict[str, Any], path: Iterable[str]) -> dict[str, Any]:
    """Return the schema of a value. Raises KeyError if it has none."""
    for name in path:
        schema = schema["properties"][name]
    return schema


if __name__ == "__main__":
    write(Path(sys.argv[1]))
