"""JSON patch (RFC 6902) and merge patch (RFC 7386)."""

from collections.abc import Callable
from typing import Any

import msgspec

from localcluster.base.errors import StatusError, bad_request

MAX_OPERATIONS = 10_000


class _NoSuchPathError(Exception):
    """The pointer refers to nothing."""


def copy(value: Any) -> Any:
    """Return a deep copy of a JSON value."""
    return msgspec.json.decode(msgspec.json.encode(value))


def rejected() -> StatusError:
    """Return the 422 for a patch that does not apply to this object."""
    message = "the server rejected our request due to an error in our request"
    return StatusError(422, "Invalid", message, {})


def json_patch(target: Any, operations: Any) -> Any:
    """Return the target after all operations; the target itself may be changed.

    Raises StatusError: 400 for an invalid JSON patch, 413 for too many operations, 422 for an
    operation that does not apply (including a failed `test`).
    """
    if not isinstance(operations, list) or not all(isinstance(op, dict) for op in operations):
        raise bad_request("error decoding patch: a JSON patch is a list of operations")
    if len(operations) > MAX_OPERATIONS:
        message = (
            f"The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, "
            f"got {len(operations)}"
        )
        raise StatusError(413, "RequestEntityTooLarge", message)
    root = {"": target}
    for operation in operations:
        apply = _OPERATIONS.get(operation.get("op", ""))
        if apply is None or not isinstance(operation.get("path"), str):
            raise rejected()
        try:
            apply(root, operation)
        except (_NoSuchPathError, KeyError) as error:
            raise rejected() from error
    return root[""]


def _pointer(text: Any) -> list[str]:
    if not isinstance(text, str) or (text and not text.startswith("/")):
        raise _NoSuchPathError(text)
    return [""] + [part.replace("~1", "/").replace("~0", "~") for part in text.split("/")[1:]]


def _index(container: list[Any], token: str, *, end: int) -> int:
    digits = token.removeprefix("-")
    if not (digits.isascii() and digits.isdigit()) or (len(digits) > 1 and digits[0] == "0"):
        raise _NoSuchPathError(token)
    index = int(token)
    if index < 0:
        index += len(container)
    if not 0 <= index < end:
        raise _NoSuchPathError(token)
    return index


def _get(container: Any, token: str) -> Any:
    if isinstance(container, dict) and token in container:
        return container[token]
    if isinstance(container, list):
        return container[_index(container, token, end=len(container))]
    raise _NoSuchPathError(token)


def _parent(root: Any, path: Any) -> tuple[Any, str]:
    *way, last = _pointer(path)
    at = root
    for token in way:
        at = _get(at, token)
    return at, last


def _value(operation: dict[str, Any]) -> Any:
    if "value" not in operation:
        raise _NoSuchPathError(operation["path"])
    return copy(operation["value"])


def _put(root: Any, path: Any, value: Any) -> None:
    container, last = _parent(root, path)
    if isinstance(container, dict):
        container[last] = value
    elif isinstance(container, list) and last == "-":
        container.append(value)
    elif isinstance(container, list):
        container.insert(_index(container, last, end=len(container) + 1), value)
    else:
        raise _NoSuchPathError(path)


def _take(root: Any, path: Any) -> Any:
    container, last = _parent(root, path)
    value = _get(container, last)
    if isinstance(container, dict):
        del container[last]
    else:
        del container[_index(container, last, end=len(container))]
    return value


def _add(root: Any, operation: dict[str, Any]) -> None:
    _put(root, operation["path"], _value(operation))


def _remove(root: Any, operation: dict[str, Any]) -> None:
    _take(root, operation["path"])


def _replace(root: Any, operation: dict[str, Any]) -> None:
    container, last = _parent(root, operation["path"])
    _get(container, last)
    if isinstance(container, dict):
        container[last] = _value(operation)
    else:
        container[_index(container, last, end=len(container))] = _value(operation)


def _move(root: Any, operation: dict[str, Any]) -> None:
    source, target = _pointer(operation["from"]), _pointer(operation["path"])
    if len(target) > len(source) and target[: len(source)] == source:
        raise _NoSuchPathError(operation["path"])
    _put(root, operation["path"], _take(root, operation["from"]))


def _copy(root: Any, operation: dict[str, Any]) -> None:
    container, last = _parent(root, operation["from"])
    _put(root, operation["path"], copy(_get(container, last)))


def _test(root: Any, operation: dict[str, Any]) -> None:
    wanted = operation.get("value")
    try:
        container, last = _parent(root, operation["path"])
        found = _get(container, last)
    except _NoSuchPathError:
        if wanted is None:
            return
        raise
    if not _same(found, wanted):
        raise _NoSuchPathError(operation["path"])


def _same(left: Any, right: Any) -> bool:
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(_same(left[k], right[k]) for k in left)
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(_same, left, right))
    return bool(left == right)


_OPERATIONS: dict[str, Callable[[Any, dict[str, Any]], None]] = {
    "add": _add,
    "remove": _remove,
    "replace": _replace,
    "move": _move,
    "copy": _copy,
    "test": _test,
}


def merge_patch(target: Any, patch: Any) -> Any:
    """Return the target after a merge patch: null removes, objects merge, other values replace."""
    if not isinstance(patch, dict):
        return patch
    merged = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = merge_patch(merged.get(key), value)
    return merged
