"""JSON patches (RFC 6902) built by hand, operation by operation.

A patch changes only what it names, so unknown fields are never dropped.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal, Self

import msgspec

Operation = dict[str, Any]
Op = Literal["test", "add", "replace", "remove"]


def escape(token: str) -> str:
    """Escape `~` and `/` in one token of a JSON pointer (RFC 6901)."""
    return token.replace("~", "~0").replace("/", "~1")


def pointer(*tokens: str | int) -> str:
    """Return a JSON pointer from raw, unescaped tokens; an int or "-" addresses a list."""
    return "".join(f"/{escape(str(token))}" for token in tokens)


@dataclass(slots=True)
class PatchBuilder:
    """A patch under construction. Paths are JSON pointers; see `pointer`."""

    ops: list[Operation] = field(default_factory=list)

    def test(self, path: str, value: Any) -> Self:
        """Let the complete patch fail (422 Invalid) unless the value is there."""
        return self._push("test", path, value)

    def add(self, path: str, value: Any) -> Self:
        """Set a member, or insert into a list."""
        return self._push("add", path, value)

    def replace(self, path: str, value: Any) -> Self:
        """Set a member that exists."""
        return self._push("replace", path, value)

    def remove(self, path: str) -> Self:
        """Remove a member that exists."""
        self.ops.append({"op": "remove", "path": path})
        return self

    def at_version(self, resource_version: str) -> Self:
        """Let the patch fail (409 Conflict) if the object is at another version.

        Written as a replace and not a test: a failed test would be a 422 like any invalid patch.
        """
        return self._push("replace", "/metadata/resourceVersion", resource_version)

    def of_uid(self, uid: str) -> Self:
        """Let the patch fail (422 Invalid) if the name belongs to another object by now."""
        return self._push("test", "/metadata/uid", uid)

    def encode(self) -> bytes:
        """Return the body for `application/json-patch+json`."""
        return msgspec.json.encode(self.ops)

    def __bool__(self) -> bool:
        return bool(self.ops)

    def __iter__(self) -> Iterator[Operation]:
        return iter(self.ops)

    def _push(self, op: Op, path: str, value: Any) -> Self:
        self.ops.append({"op": op, "path": path, "value": value})
        return self
