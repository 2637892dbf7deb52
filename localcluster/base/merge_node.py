"""The merge rules of one value of an object."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal


@dataclass(frozen=True, slots=True)
class MergeNode:
    """The merge rules of one value.

    `type` is "granular" for scalars and for objects that merge field by field, "atomic" for values
    that are replaced completely (the default for lists), "set" for lists of distinct scalars, and
    "map" for lists of objects identified by `keys`. `fields` has the rules of an object's fields,
    `items` those of a list's items or of all values of a map with free keys. A field without a rule
    is granular if an object and atomic if a list.
    """

    type: Literal["granular", "atomic", "set", "map"] = "granular"
    keys: tuple[str, ...] = ()
    fields: Mapping[str, "MergeNode"] = field(default_factory=dict)
    items: "MergeNode | None" = None
    key_defaults: Mapping[str, object] = field(default_factory=dict)
    patch_key: str = ""

    def child(self, name: str) -> "MergeNode":
        """Return the rules of a field."""
        return self.fields.get(name) or self.items or LEAF

    @property
    def item(self) -> "MergeNode":
        """The rules of a list's items."""
        return self.items or LEAF

    @property
    def merge_key(self) -> str:
        """The one key that identifies items in a strategic merge patch."""
        return self.patch_key or (self.keys[0] if self.keys else "")


LEAF = MergeNode()
