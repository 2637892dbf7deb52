"""tools.chart_values: every value of the chart has a comment, a schema and a description."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from e2e.harness.controlplane.places import ROOT
from tools import chart_values

CHART = ROOT / "charts" / "muster"


def properties(schema: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield every value that a schema allows, with its path; those of `config` apart."""
    for name, below in schema.get("properties", {}).items():
        yield (*path, name), below
        yield from properties(below, (*path, name))
    if isinstance(schema.get("items"), dict):
        yield from properties(schema["items"], (*path, "[]"))


def values(found: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Yield the path of every value; the amounts of resources and peers are the user's."""
    for name, below in found.items():
        yield (*path, name)
        if isinstance(below, dict) and name != "resources":
            yield from values(below, (*path, name))


def test_every_value_has_a_comment_and_a_schema_and_every_schema_a_description() -> None:
    text = (CHART / "values.yaml").read_text()
    schema = dict(properties(json.loads((CHART / "values.schema.json").read_text())))

    commented = chart_values.descriptions(text)
    assert set(values(yaml.safe_load(text))) == set(commented)
    assert {path: schema[path]["description"] for path in commented} == commented
    assert [path for path, it in schema.items() if not it.get("description")] == []
    # Without a value in values.yaml: what only some set, and the values of a parent chart.
    assert {path[0] for path in schema if len(path) == 1} - {"global"} == {
        path[0] for path in commented
    }


def test_a_comment_belongs_to_the_value_below_it() -> None:
    text = """# The file.

# One
# of two lines.
a:
  # Inner.
  b: 1
  c:
    - d: 2
# Next.
e: []
"""
    assert chart_values.descriptions(text) == {
        ("a",): "One of two lines.",
        ("a", "b"): "Inner.",
        ("e",): "Next.",
    }


def test_a_stale_schema_becomes_the_one_that_is_committed(tmp_path: Path) -> None:
    copy = shutil.copytree(CHART, tmp_path / "muster")
    schema = copy / "values.schema.json"
    schema.write_text(schema.read_text().replace("Tag of the image.", "Old."))

    chart_values.write(copy)

    assert schema.read_bytes() == (CHART / "values.schema.json").read_bytes()
