"""The merge rules of the built-in kinds, made from their fields."""

import functools

from localcluster.definitions import builtin
from localcluster.definitions.notation import Field
from localcluster.mergekeys import LEAF, MergeNode

METADATA = MergeNode(
    fields={"ownerReferences": MergeNode("map", ("uid",)), "finalizers": MergeNode("set")}
)
GENERAL = MergeNode(
    fields={
        "metadata": METADATA,
        "status": MergeNode(fields={"conditions": MergeNode("map", ("type",))}),
    }
)


@functools.cache
def merge_table(collection: tuple[str, str]) -> MergeNode:
    """The rules of a built-in kind."""
    name = builtin.type_name(*collection)
    return GENERAL if name is None else _Rules().of(name)


class _Rules:
    """The rules of types, which may contain themselves."""

    def __init__(self) -> None:
        self._known: dict[str, MergeNode] = {}

    def of(self, word: str) -> MergeNode:
        """The rules of a type of the notation."""
        if word.startswith("{"):
            return MergeNode(items=self.of(word[1:-1]))
        found = builtin.types().get(word)
        if found is None:
            return LEAF
        if word not in self._known:
            fields: dict[str, MergeNode] = {}
            self._known[word] = MergeNode(fields=fields)
            fields |= {field.name: self._field(field) for field in found.fields}
        return self._known[word]

    def _field(self, field: Field) -> MergeNode:
        options, patch_key = field.options, field.options.get("patch", "")
        if "set" in options:
            return MergeNode("set")
        if "key" in options:
            item = field.type[1:-1]
            keys = tuple(options["key"].split(","))
            defaults = {
                one.name: one.options["default"]
                for one in builtin.types()[item].fields
                if one.name in keys and "default" in one.options
            }
            return MergeNode("map", keys, {}, self.of(item), defaults, patch_key)
        if "atomic" in options or field.type.startswith("["):
            return MergeNode("atomic", patch_key=patch_key)
        return self.of(field.type)
