"""Generation of the notation from upstream's OpenAPI documents."""

from typing import Any

import pytest

from localcluster.definitions import builtin, generate
from localcluster.definitions.notation import read

API = "io.k8s.api.core.v1."


def ref(name: str) -> dict[str, Any]:
    return {"allOf": [{"$ref": f"#/components/schemas/{API}{name}"}], "default": {}}


def schemas() -> dict[str, Any]:
    """Return every described kind as an empty object, and a pod of a few fields."""
    found: dict[str, Any] = {}
    for info in builtin.DESCRIBED:
        gvk = {"group": info.group, "kind": info.kind, "version": info.version}
        group = info.group.partition(".")[0] or "core"
        found[f"io.k8s.api.{group}.v1.{info.kind}"] = {
            "description": f"{info.kind} is a kind. More of it.",
            "x-kubernetes-group-version-kind": [gvk],
        }
    ports = {
        "type": "array",
        "items": ref("Port"),
        "description": "Ports, e.g. 80. More of them.",
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["port", "protocol"],
        "x-kubernetes-patch-merge-key": "port",
    }
    conditions = {
        "type": "array",
        "items": {"type": "string"},
        "x-kubernetes-list-type": "atomic",
        "x-kubernetes-patch-merge-key": "type",
    }
    found[f"{API}Pod"] |= {
        "properties": {
            "ports": ports,
            "conditions": conditions,
            "selector": ref("Selector"),
            "limits": {"type": "object", "additionalProperties": ref("Quantity")},
        },
        "required": ["selector"],
    }
    found[f"{API}Port"] = {
        "properties": {
            "port": {"type": "integer", "format": "int32", "default": 0},
            "protocol": {"type": "string", "default": "TCP"},
        },
        "required": ["port"],
    }
    found[f"{API}Selector"] = {"description": "Labels.", "x-kubernetes-map-type": "atomic"}
    return found


def test_types_follow_their_first_user_with_what_merging_needs() -> None:
    lines = list(generate.lines(schemas()))

    first = lines.index("Pod: Pod is a kind.")
    assert lines[first : first + 10] == [
        "Pod: Pod is a kind.",
        "  ports [Port] key=port,protocol: Ports, e.g. 80.",
        "  conditions [string] atomic patch=type: Not described.",
        "  selector! Selector atomic: Not described.",
        "  limits {quantity}: Not described.",
        "Port: Not described.",
        "  port! int32: Not described.",
        "  protocol string default=TCP: Not described.",
        "Selector: Labels.",
        "Event: Event is a kind.",
    ]
    assert set(read("\n".join(lines))) >= {info.kind for info in builtin.DESCRIBED}


def test_two_types_of_one_short_name_must_have_the_same_fields() -> None:
    known = schemas()
    known["io.k8s.api.apps.v1.Port"] = {"properties": {"port": {"type": "string"}}}
    other = {"allOf": [{"$ref": "#/components/schemas/io.k8s.api.apps.v1.Port"}]}
    known[f"{API}Node"] |= {"properties": {"port": other}}

    with pytest.raises(ValueError, match="another type has its short name"):
        list(generate.lines(known))


def test_the_file_has_all_kinds_and_nothing_that_they_do_not_use() -> None:
    known = read(builtin.FILE.read_text("utf-8"))
    used = {info.kind for info in builtin.DESCRIBED}
    for one in known.values():
        used |= {word.strip("[]{}") for field in one.fields for word in field.type.split("|")}

    assert set(known) <= used
    scalars = {"string", "bool", "int32", "int64", "number", "time", "quantity", "intOrString"}
    assert used - set(known) <= scalars | {"any", "json"}
