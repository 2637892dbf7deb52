"""Objects as the rows that `kubectl get` prints."""

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

from localcluster.base.resources import ResourceInfo
from localcluster.base.store import Stored
from localcluster.http import jsonpath
from localcluster.http.tablecolumns import BUILT_IN, Column
from localcluster.http.tablecolumns import age as age_of

Object = dict[str, Any]
NAME_FORMAT = "name"
NAME_TEXT = (
    "Name must be unique within a namespace. Is required when creating resources, although some "
    "resources may allow a client to request the generation of an appropriate name automatically."
)
AGE_TEXT = "CreationTimestamp is a timestamp representing the server time when it was created."


def _definition(name: str, kind: str, text: str, priority: int, form: str = "") -> Object:
    return {"name": name, "type": kind, "format": form, "description": text, "priority": priority}


def _name(obj: Object, _: datetime) -> str:
    return str(obj["metadata"]["name"])


def _age(obj: Object, now: datetime) -> str:
    return age_of(obj["metadata"].get("creationTimestamp"), now)


def columns(info: ResourceInfo) -> list[tuple[Object, Callable[[Object, datetime], Any]]]:
    """Return the columns of a kind: their definitions and cell functions."""
    out: list[tuple[Object, Callable[[Object, datetime], Any]]] = [
        (_definition("Name", "string", NAME_TEXT, 0, NAME_FORMAT), _name)
    ]
    known: Sequence[Column] = BUILT_IN.get(info.collection, ())
    out += [(_definition(c.name, c.type, "", c.priority), c.cell) for c in known]
    for column in info.columns:
        definition = _definition(
            column.name, column.type, column.description, column.priority, column.format
        )
        out.append((definition, _custom(column.json_path, column.type)))
    if not known and not info.columns:
        kind = "date" if info.custom else "string"
        out.append((_definition("Age", kind, AGE_TEXT, 0), _age))
    return out


def _custom(path: str, kind: str) -> Callable[[Object, datetime], Any]:
    def cell(obj: Object, now: datetime) -> Any:
        found = jsonpath.find(obj, path)
        if not found:
            return None
        if kind == "date":
            return age_of(found[0], now)
        if kind in {"integer", "number", "boolean"}:
            return found[0]
        return jsonpath.text(obj, path)

    return cell


def render(
    info: ResourceInfo,
    items: Sequence[Stored],
    now: datetime,
    list_meta: Object,
    *,
    include: str = "Metadata",
    headers: bool = True,
) -> Object:
    """Return a meta.k8s.io/v1 Table; the client sets `include` to None, Metadata or Object."""
    chosen = columns(info)
    rows = []
    for item in items:
        row: Object = {"cells": [cell(item.obj, now) for _, cell in chosen]}
        if include == "Object":
            row["object"] = item.obj
        elif include == "Metadata":
            row["object"] = partial(item.obj)
        rows.append(row)
    return {
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": list_meta,
        "columnDefinitions": [definition for definition, _ in chosen] if headers else [],
        "rows": rows,
    }


def partial(obj: Object) -> Object:
    """Return the PartialObjectMetadata of an object."""
    return {
        "kind": "PartialObjectMetadata",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": obj["metadata"],
    }
