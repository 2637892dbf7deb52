"""The CEL rules of a schema (x-kubernetes-validations), with self and oldSelf."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterator
from typing import Any

from localcluster.base.errors import Cause
from localcluster.base.fielderrors import OMITTED, duplicate, forbidden, invalid, required
from localcluster.schemas import cel
from localcluster.schemas.schema import UNSET, Rule, Schema
from localcluster.schemas.validation import map_key, same

VARIABLES = ("self", "oldSelf")

_RESERVED = frozenset({
    "true", "false", "null", "in", "as", "break", "const", "continue", "else", "for", "function",
    "if", "import", "let", "loop", "package", "namespace", "return", "var", "void", "while",
})  # fmt: skip


def escape(name: str) -> str:
    """Return the name by which a rule reads a property (`foo-bar` is `foo__dash__bar`)."""
    if name in _RESERVED:
        return f"__{name}__"
    name = name.replace("__", "__underscores__")
    for sign, word in ((".", "__dot__"), ("-", "__dash__"), ("/", "__slash__")):
        name = name.replace(sign, word)
    return name


def to_cel(value: Any, schema: Schema | None) -> Any:
    """Convert a JSON value for a rule: escaped names, numbers and times by their type."""
    if schema is None:
        return value
    if isinstance(value, dict):
        return _map_to_cel(value, schema)
    if isinstance(value, list):
        return [to_cel(item, schema.items) for item in value]
    if schema.type == "number" and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if isinstance(value, str) and schema.format in {"date-time", "datetime"}:
        return dt.datetime.fromisoformat(value)
    return value


def _map_to_cel(value: dict[str, Any], schema: Schema) -> dict[str, Any]:
    seen: dict[str, Any] = {}
    for key, entry in value.items():
        below = schema.properties.get(key)
        if below is not None:
            seen[escape(key)] = to_cel(entry, below)
        elif schema.values is not None:
            seen[key] = to_cel(entry, schema.values)
        elif schema.additional is True or _is_metadata(key, schema):
            seen[key] = entry
    return seen


def _is_metadata(key: str, schema: Schema) -> bool:
    return schema.embedded and key in {"apiVersion", "kind", "metadata"}


def check_rules(value: Any, schema: Schema | None, path: str = "", old: Any = UNSET) -> list[Cause]:
    """Evaluate all rules at and below `path`; transition rules only if an old value is known."""
    if schema is None or not schema.any_rule or value is None:
        return []
    causes = [cause for rule in schema.rules for cause in _evaluate(rule, value, schema, path, old)]
    for below, entry, where, earlier in _children(value, schema, path, old):
        causes += check_rules(entry, below, where, earlier)
    return causes


def _children(
    value: Any, schema: Schema, path: str, old: Any
) -> Iterator[tuple[Schema | None, Any, str, Any]]:
    if isinstance(value, dict):
        for key, entry in value.items():
            if key in schema.properties:
                where = f"{path}.{key}" if path else key
            else:
                where = f"{path}[{key}]"
            earlier = old.get(key, UNSET) if isinstance(old, dict) else UNSET
            yield schema.child(key), entry, where, earlier
    elif isinstance(value, list):
        before = old if schema.list_type == "map" and isinstance(old, list) else []
        known = {map_key(schema, item): item for item in before}
        for index, item in enumerate(value):
            earlier = known.get(map_key(schema, item), UNSET)
            yield schema.items, item, f"{path}[{index}]", earlier


def _evaluate(rule: Rule, value: Any, schema: Schema, path: str, old: Any) -> list[Cause]:
    is_transition = cel.mentions(rule.rule, "oldSelf")
    if is_transition and old is UNSET and not rule.optional_old_self:
        return []
    values = {"self": to_cel(value, schema), "oldSelf": _old_self(rule, schema, old)}
    shown = rule.message.strip() or rule.rule.strip()
    here = path or "<nil>"
    try:
        holds = cel.compile_expression(_source(rule), VARIABLES).evaluate(values)
    except cel.EvaluationError as error:
        return [invalid(here, schema.type, _failure(error, shown))]
    if holds is True or (not is_transition and old is not UNSET and same(value, old)):
        return []
    detail = _message(rule, values)
    where = here + _normal_path(rule.field_path) if path else _normal_path(rule.field_path)[1:]
    shown_value = OMITTED if schema.type in {"object", "array"} else value
    return [_cause(rule, where or "<nil>", shown_value, detail)]


def _old_self(rule: Rule, schema: Schema, old: Any) -> Any:
    before = None if old is UNSET else to_cel(old, schema)
    if not rule.optional_old_self:
        return before
    return [] if old is UNSET else [before]


def _source(rule: Rule) -> str:
    """Return the rule in compiled form: an optional oldSelf is passed as a list of zero or one."""
    if not rule.optional_old_self:
        return rule.rule
    wrapped = "(oldSelf.size() > 0 ? optional.of(oldSelf[0]) : optional.none())"
    return re.sub(r"(?<![.\w])oldSelf\b", wrapped, rule.rule)


def _failure(error: cel.EvaluationError, shown: str) -> str:
    if error.detail.startswith("no such overload"):
        return (
            f"'{error.detail}': call arguments did not match a supported operator, function or"
            f" macro signature for rule: {shown}"
        )
    return f"{error.detail} evaluating rule: {shown}"


def _message(rule: Rule, values: dict[str, Any]) -> str:
    if rule.message_expression:
        try:
            said = cel.compile_expression(rule.message_expression, VARIABLES).evaluate(values)
        except cel.EvaluationError:
            said = None  # as upstream, a failing messageExpression falls back to message
        if isinstance(said, str) and said.strip() and "\n" not in said:
            return said
    return rule.message.strip() or f"failed rule: {rule.rule.strip()}"


def _normal_path(field_path: str) -> str:
    return re.sub(r"\['([^']*)'\]", r"[\1]", field_path)


def _cause(rule: Rule, path: str, value: Any, detail: str) -> Cause:
    if rule.reason == "FieldValueForbidden":
        return forbidden(path, detail)
    if rule.reason == "FieldValueRequired":
        return required(path, detail)
    if rule.reason == "FieldValueDuplicate":
        return duplicate(path, value)
    return invalid(path, value, detail)


def check_source(rule: Rule, path: str) -> list[Cause]:
    """Return the reasons to reject a rule: it does not compile, or its result is not a bool."""
    causes = []
    try:
        expression = cel.compile_expression(_source(rule), VARIABLES)
        if expression.result not in {"BOOL", "DYN"}:
            raise cel.CompileError(rule.rule, "cel expression must evaluate to a bool")
    except cel.CompileError as error:
        causes.append(invalid(f"{path}.rule", _shown(rule), error.detail))
    if rule.message_expression:
        try:
            cel.compile_expression(rule.message_expression, VARIABLES)
        except cel.CompileError as error:
            causes.append(cel.refusal(f"{path}.messageExpression", error))
    return causes


def _shown(rule: Rule) -> dict[str, Any]:
    """Return the rule as in the API server's messages: with the names of its Go fields."""
    return {
        "Rule": rule.rule,
        "Message": rule.message,
        "MessageExpression": rule.message_expression,
        "Reason": None if rule.reason == "FieldValueInvalid" else rule.reason,
        "FieldPath": rule.field_path,
        "OptionalOldSelf": rule.optional_old_self or None,
    }
