"""The models of the Python client: pydantic, with a docstring for each field."""

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any, Final

from tools.clients.structs import CONDITIONS, CONSTANTS, Field, Struct, wrapped

_HEAD: Final = '''\
"""The kinds of scheduling.muster.dev. Generated from api/models by `make generate`; do not edit."""

# ruff: noqa: N815  fields bear the API's own names

from __future__ import annotations

from datetime import datetime
from typing import Any, ClassVar, Final

from pydantic import Field

from muster_client.base import Model, Object, Resource
'''
_INDENT: Final = "    "
_WIDTH: Final = 100 - len(_INDENT)
"""Characters of a line of a docstring."""

_SCALARS: Final[dict[Any, tuple[str, str]]] = {
    str: ("str", '""'),
    int: ("int", "0"),
    bool: ("bool", "False"),
    datetime: ("datetime", "None"),
    dict[str, Any]: ("dict[str, Any]", "Field(default_factory=dict)"),
}


def python_models(found: Sequence[Struct]) -> str:
    """Return the module."""
    constants = (f'{name}: Final = "{value}"\n' for name, value in CONSTANTS.items())
    return "".join([_HEAD, "\n", *constants, *("\n\n" + _model(struct) for struct in found)])


def _model(struct: Struct) -> str:
    base = struct.base or ("Model" if struct.kind is None else "Object")
    own = struct.fields[struct.inherited :]
    parts = [_docstring(struct.description), *_coordinates(struct), *map(_field, own)]
    return f"class {struct.name}({base}):\n" + "\n".join(parts)


def _coordinates(struct: Struct) -> Iterator[str]:
    """Yield the class variables of a kind."""
    if struct.kind is None:
        return
    names = ", ".join(f'"{name}"' for name in struct.kind[:4])
    start = f"{_INDENT}resource: ClassVar[Resource] = Resource("
    yield f"{start}\n{_INDENT}{_INDENT}{names}\n{_INDENT})\n"
    if struct.kind in CONDITIONS:
        yield f"{_INDENT}scheduled_condition: ClassVar[str] = {CONDITIONS[struct.kind]}\n"


def _field(field: Field) -> str:
    name, default = _SCALARS.get(field.type, (field.type, "None"))
    if field.is_list:
        name, default = f"list[{name}]", "Field(default_factory=list)"
    elif field.is_optional:
        name, default = f"{name} | None", "None"
    elif field.is_always_there:
        default = f"Field(default_factory={name})"
    return f"{_INDENT}{field.name}: {name} = {default}\n{_docstring(field.description)}"


def _docstring(text: str) -> str:
    """Return a docstring: one line, or its first sentence alone above the others."""
    summary, _, rest = text.partition("\n")
    lines = [f'"""{summary}', "", *wrapped(rest, _WIDTH)] if rest else wrapped(f'"""{text}', _WIDTH)
    ends = len(lines) == 1 and len(lines[0]) + 3 <= _WIDTH
    closed = [*lines[:-1], f'{lines[-1]}"""'] if ends else [*lines, '"""']
    return "".join(f"{_INDENT}{line}\n" if line else "\n" for line in closed)
