"""The models of the stored version as plain values, for generators in any language."""

import inspect
import textwrap
from dataclasses import dataclass
from typing import Any, Final, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from api import constants
from api.constants import COMPOSITE_POD_GROUP, POD_GROUP, WORKLOAD, KindName
from api.crd.schema import prose, without_none
from api.models import v1alpha3
from api.models.parts import ListMap

KINDS: Final[dict[type[BaseModel], KindName]] = {
    v1alpha3.Workload: WORKLOAD,
    v1alpha3.PodGroup: POD_GROUP,
    v1alpha3.CompositePodGroup: COMPOSITE_POD_GROUP,
}
CONDITIONS: Final = {
    POD_GROUP: "CONDITION_POD_GROUP_SCHEDULED",
    COMPOSITE_POD_GROUP: "CONDITION_COMPOSITE_SCHEDULED",
}
"""The constant that has the type of a kind's condition."""

CONSTANTS: Final = {
    name: getattr(constants, name)
    for name in (
        *("GROUP", "VERSION", "SCHEDULER_NAME", "LABEL_POD_GROUP"),
        *CONDITIONS.values(),
        *("REASON_SCHEDULED", "REASON_UNSCHEDULABLE", "REASON_INCOMPLETE", "REASON_INVALID"),
        *("REASON_SCHEDULER_ERROR", "REASON_START_TIMEOUT"),
    )
}
"""What a controller needs to name a group in its pods, and to read its condition."""


@dataclass(frozen=True, slots=True)
class Field:
    """A field: `type` is that of a value or of an item, a scalar or the name of a struct.

    `is_always_there` holds for the spec and the status of a kind.
    """

    name: str
    description: str
    type: Any
    is_list: bool
    is_optional: bool
    is_always_there: bool
    is_int64: bool
    key: str | None


@dataclass(frozen=True, slots=True)
class Struct:
    """A model with all its fields, those of its bases too; `kind` is None for a part.

    `base` is the struct with the `inherited` first fields, whose name is private; or it is empty.
    """

    name: str
    description: str
    fields: tuple[Field, ...]
    kind: KindName | None
    base: str
    inherited: int


def structs() -> list[Struct]:
    """Return the kinds and all their parts, each part before the structs that use it."""
    found: dict[type[BaseModel], None] = {}
    for model in KINDS:
        _collect(model, found)
    return [_struct(model) for model in found]


def _collect(model: type[BaseModel], found: dict[type[BaseModel], None]) -> None:
    base = _base(model)
    if base is not None and base not in found:
        _collect(base, found)
    for part in (_type(field) for field in model.model_fields.values()):
        if inspect.isclass(part) and issubclass(part, BaseModel) and part not in {model, *found}:
            _collect(part, found)
    found[model] = None


def _struct(model: type[BaseModel]) -> Struct:
    kind = KINDS.get(model)
    fields = model.model_fields.items()
    of = tuple(_field(name, field, is_of_kind=kind is not None) for name, field in fields)
    base = _base(model)
    name, inherited = ("", 0) if base is None else (base.__name__, len(base.model_fields))
    return Struct(model.__name__, prose(model.__doc__ or ""), of, kind, name, inherited)


def _base(model: type[BaseModel]) -> type[BaseModel] | None:
    """Return the model whose fields several models share."""
    base = model.__base__
    is_shared = base is not None and issubclass(base, BaseModel) and base.__name__.startswith("_")
    return base if is_shared else None


def _field(name: str, field: FieldInfo, *, is_of_kind: bool) -> Field:
    kind, extra = _type(field), field.json_schema_extra
    return Field(
        name,
        field.description or "",
        kind.__name__ if inspect.isclass(kind) and issubclass(kind, BaseModel) else kind,
        is_list=get_origin(without_none(field.annotation)) is list,
        is_optional=field.default is None and not is_of_kind,
        is_always_there=is_of_kind,
        is_int64=isinstance(extra, dict) and extra.get("format") == "int64",
        key=next((mark.key for mark in field.metadata if isinstance(mark, ListMap)), None),
    )


def _type(field: FieldInfo) -> Any:
    annotation = without_none(field.annotation)
    return get_args(annotation)[0] if get_origin(annotation) is list else annotation


def wrapped(text: str, width: int) -> list[str]:
    """Return the lines of a description, each of at most `width` characters."""
    return [
        line
        for paragraph in text.splitlines()
        for line in textwrap.wrap(paragraph, width, break_on_hyphens=False)
    ]
