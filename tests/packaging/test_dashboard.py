"""The dashboard is valid for Grafana: types generated from its schemas know every field."""

import copy
import json
from collections.abc import Iterator, Mapping
from enum import Enum
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import pytest
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.cog.plugins import register_default_plugins
from grafana_foundation_sdk.models.dashboard import Dashboard

from tests.structure.graph import ROOT

Json = Any

DASHBOARD: Json = json.loads((ROOT / "manifests/monitoring/dashboard.json").read_text())
_MODELS = "grafana_foundation_sdk.models."


@pytest.fixture(scope="module", autouse=True)
def plugins() -> None:
    """Register the types of the panels' and queries' plugins."""
    register_default_plugins()


def complaints(dashboard: Json) -> list[str]:
    """Return fields that Grafana does not know, and values of wrong types."""
    read = Dashboard.from_json(copy.deepcopy(dashboard))
    written = json.loads(json.dumps(read, cls=JSONEncoder))
    return [*_lost(dashboard, written, "dashboard"), *_wrong(read, "dashboard")]


def _lost(before: Json, after: Json, where: str) -> Iterator[str]:
    if isinstance(before, dict) and isinstance(after, dict):
        for key, value in before.items():
            if key not in after:
                yield f"{where}.{key} is not known"
            else:
                yield from _lost(value, after[key], f"{where}.{key}")
    elif isinstance(before, list) and isinstance(after, list):
        for number, (one, other) in enumerate(zip(before, after, strict=True)):
            yield from _lost(one, other, f"{where}[{number}]")
    elif before != after:
        yield f"{where} is {before!r}, and read as {after!r}"


def _wrong(read: object, where: str) -> Iterator[str]:
    hints = get_type_hints(type(read))
    for name, value in vars(read).items():
        here = f"{where}.{name}"
        if not _is_one(value, hints.get(name, Any)):
            yield f"{here} is {value!r}, not {hints[name]}"
        parts = value if isinstance(value, list) else [value]
        for part in parts:
            if type(part).__module__.startswith(_MODELS) and not isinstance(part, Enum):
                yield from _wrong(part, here)


def _is_one(value: object, hint: Any) -> bool:
    """Return True if the value has the type; type arguments of objects are ignored."""
    origin, arguments = get_origin(hint), get_args(hint)
    if hint is Any:
        return True
    if origin in {Union, UnionType}:
        return any(_is_one(value, one) for one in arguments)
    if origin is Literal:
        return value in arguments
    if origin is list:
        return isinstance(value, list) and all(_is_one(one, arguments[0]) for one in value)
    if origin is not None:
        return isinstance(value, Mapping)
    if hint in {None, NoneType}:
        return value is None
    if isinstance(hint, type) and issubclass(hint, Enum):
        return value in {one.value for one in hint}
    if hint is float:
        return isinstance(value, int | float) and not isinstance(value, bool)
    if hint is int:
        return isinstance(value, int) and not isinstance(value, bool)
    return isinstance(value, hint) if isinstance(hint, type) else True


def test_grafana_knows_every_field_and_value() -> None:
    assert complaints(DASHBOARD) == []


def panel(dashboard: Json, kind: str) -> Json:
    return next(it for it in dashboard["panels"] if it["type"] == kind)


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        (("refersh",), "30s", "dashboard.refersh is not known"),
        (("timeseries", "fieldConfig", "defaults", "custom", "linewidth"), 1, "linewidth is not"),
        (("timeseries", "fieldConfig", "defaults", "custom", "drawStyle"), "lines", "draw_style"),
        (("timeseries", "options", "tooltip", "mode"), "many", "tooltip.mode is 'many'"),
        (("timeseries", "gridPos", "h"), "8", "grid_pos.h is '8'"),
        (("timeseries", "targets", 0, "expression"), "up", "expression is not known"),
        (("stat", "options", "colorMode"), "rainbow", "color_mode is 'rainbow'"),
    ],
)
def test_a_mistake_is_found(path: tuple[Any, ...], value: Json, said: str) -> None:
    dashboard = copy.deepcopy(DASHBOARD)
    place = dashboard
    if len(path) > 1:
        place = panel(dashboard, path[0])
        for part in path[1:-1]:
            place = place[part]
    place[path[-1]] = value

    assert [it for it in complaints(dashboard) if said in it]
