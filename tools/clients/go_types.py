"""The types of the Go client, with their deep copies and lists, in the form of gofmt."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any, Final

from tools.clients.structs import CONSTANTS, Field, Struct, wrapped

_HEAD: Final = """\
// Code generated from api/models by make generate. DO NOT EDIT.

package v1alpha3

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)
"""
_KIND: Final = """\
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
"""
_LIST: Final = """
// NAMEList is a list of objects of kind NAME.
type NAMEList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []NAME `json:"items"`
}
"""
_COPY: Final = """
// DeepCopyInto copies all fields into out.
func (in *NAME) DeepCopyInto(out *NAME) {
	*out = *in
BODY}

// DeepCopy returns a copy that shares nothing with the original.
func (in *NAME) DeepCopy() *NAME {
	if in == nil {
		return nil
	}
	out := new(NAME)
	in.DeepCopyInto(out)
	return out
}
"""
_COPY_OBJECT: Final = """
// DeepCopyObject returns a copy as an object of any kind.
func (in *NAME) DeepCopyObject() runtime.Object {
	if out := in.DeepCopy(); out != nil {
		return out
	}
	return nil
}
"""
_WIDTH: Final = 96
"""Characters of a line of a comment."""

_TYPES: Final[dict[Any, str]] = {
    str: "string",
    int: "int32",
    bool: "bool",
    datetime: "metav1.Time",
    dict[str, Any]: "runtime.RawExtension",
    "Condition": "metav1.Condition",
}
_SCALARS: Final = frozenset({"string", "int32", "int64", "bool"})
"""Types that an assignment copies."""


def go_types(found: Sequence[Struct]) -> str:
    """Return the file with the types."""
    constants = (f'const {_camel(name)} = "{value}"\n' for name, value in CONSTANTS.items())
    return "".join([_HEAD, "\n", *constants, *map(_type, _own(found))])


def go_deepcopy(found: Sequence[Struct]) -> str:
    """Return the file with `DeepCopyInto`, `DeepCopy`, and `DeepCopyObject` of kinds and lists."""
    return "".join([_HEAD, *map(_copies, _own(found))])


def _own(found: Sequence[Struct]) -> Iterable[Struct]:
    """Return the structs that are not of apimachinery, and no bases: a struct has all fields."""
    return (it for it in found if it.name not in _TYPES and not it.name.startswith("_"))


def _type(struct: Struct) -> str:
    comment = "".join(f"// {line}\n" for line in wrapped(struct.description, _WIDTH))
    fields = [_KIND] if struct.kind else []
    # gofmt aligns lines that follow each other: an empty line parts each field from the next.
    body = "\n".join([*fields, *map(_field, struct.fields)])
    lines = f" {{\n{body}}}" if body else "{}"
    made = f"\n{comment}type {struct.name} struct{lines}\n"
    return made + _LIST.replace("NAME", struct.name) if struct.kind else made


def _field(field: Field) -> str:
    lines = wrapped(field.description, _WIDTH)
    if field.is_list:
        lines += (
            ["+listType=map", f"+listMapKey={field.key}"] if field.key else ["+listType=atomic"]
        )
    comment = "".join(f"\t// {line}\n" for line in [*lines, "+optional"])
    prefix = "[]" if field.is_list else "*" if _is_pointer(field) else ""
    tag = f'`json:"{field.name},{"omitzero" if field.is_always_there else "omitempty"}"`'
    return f"{comment}\t{_name(field)} {prefix}{_item(field)} {tag}\n"


def _copies(struct: Struct) -> str:
    fields = "".join(map(_copy, struct.fields))
    if struct.kind is None:
        return _functions(_COPY, struct.name, fields)
    of_meta = "\tin.ObjectMeta.DeepCopyInto(&out.ObjectMeta)\n" + fields
    of_list = "\tin.ListMeta.DeepCopyInto(&out.ListMeta)\n" + _copied_list("Items", struct.name)
    both = _COPY + _COPY_OBJECT
    return _functions(both, struct.name, of_meta) + _functions(both, f"{struct.name}List", of_list)


def _functions(template: str, name: str, body: str) -> str:
    return template.replace("NAME", name).replace("BODY", body)


def _copy(field: Field) -> str:
    """Return the statements that copy what `*out = *in` shares with the original."""
    name, item = _name(field), _item(field)
    if field.is_list:
        return _copied_list(name, item)
    if field.is_always_there:
        return f"\tin.{name}.DeepCopyInto(&out.{name})\n"
    if not _is_pointer(field):
        return ""
    value = (
        f"new({item})\n\t\t*out.{name} = *in.{name}"
        if item in _SCALARS
        else f"in.{name}.DeepCopy()"
    )
    return f"\tif in.{name} != nil {{\n\t\tout.{name} = {value}\n\t}}\n"


def _copied_list(name: str, item: str) -> str:
    made = f"\tif in.{name} != nil {{\n\t\tout.{name} = make([]{item}, len(in.{name}))\n"
    if item in _SCALARS:
        return f"{made}\t\tcopy(out.{name}, in.{name})\n\t}}\n"
    copied = f"in.{name}[i].DeepCopyInto(&out.{name}[i])"
    return f"{made}\t\tfor i := range in.{name} {{\n\t\t\t{copied}\n\t\t}}\n\t}}\n"


def _is_pointer(field: Field) -> bool:
    # Of texts, numbers and booleans only those whose absence differs from the zero value.
    return field.is_optional or not (field.is_always_there or _item(field) in _SCALARS)


def _item(field: Field) -> str:
    return "int64" if field.is_int64 else _TYPES.get(field.type, field.type)


def _name(field: Field) -> str:
    return (field.name[0].upper() + field.name[1:]).replace("Api", "API")


def _camel(name: str) -> str:
    return "".join(part.capitalize() for part in name.split("_"))
