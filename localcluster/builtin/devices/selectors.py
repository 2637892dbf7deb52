"""Validation of device selectors when their object is stored."""

import functools
from typing import Any

from localcluster.base.errors import Cause
from localcluster.base.fielderrors import invalid, required, too_long
from localcluster.builtin.devices.signatures import FUNCTIONS, VARIABLES
from localcluster.schemas import cel

_CHECKER = cel.Checker(VARIABLES, FUNCTIONS)
MOST_BYTES = 10 * 1024
_KINDS = {"STRING": "string", "INT": "int", "UINT": "uint", "DOUBLE": "double", "NULL": "null_type"}


def selector_causes(selector: dict[str, Any], at: str) -> list[Cause]:
    """Return the validation errors of one selector."""
    if selector.get("cel") is None:
        return [required(f"{at}.cel")]
    text, where = selector["cel"].get("expression", ""), f"{at}.cel.expression"
    if len(text.encode()) > MOST_BYTES:
        return [too_long(where, MOST_BYTES)]
    try:
        result = _result(text)
    except cel.CompileError as error:
        return [cel.refusal(where, error)]
    if result in {"BOOL", "DYN"}:
        return []
    kind = _KINDS.get(result, result.lower())
    return [invalid(where, text, f"must evaluate to bool or the unknown type, not {kind}")]


@functools.lru_cache(maxsize=4096)
def _result(text: str) -> str:
    """Return the type of an expression.

    Raises CompileError.

    The result is cached, because all claims of one template have the same expressions.
    """
    return _CHECKER.compile(text).result
