"""Generator of the reference of all fields and rules: `python -m tools.api_reference FILE`.

It contains what the CRDs and the table of rules contain, for readers without a cluster.
"""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from api.constants import KindName
from api.crd import DEFINED, crd
from api.rules import table
from api.rules.table import Rule

Json = dict[str, Any]

HEAD: Final = """\
# Fields and rules

Generated from `api/` by `make generate`; do not edit.
[api.md](api.md) explains the fields that this page lists.
On a cluster, `kubectl explain` prints the same texts.
"""
RULES_HEAD: Final = """
## Rules

Each refusal is one entry of `details.causes`: the field's path, the reason, and this text.
A path below ends the whole path of the field; `[]` stands for a place in a list.

| rule | fields | reason | text |
|---|---|---|---|
"""
TREE: Final = "compositePodGroupTemplates"


def reference() -> str:
    """Return the complete page."""
    kinds = "".join(_kind(kind) for kind in DEFINED)
    rules = "".join(_row(*_rule(rule)) for rule in table.ALL)
    return HEAD + kinds + RULES_HEAD + rules


def _kind(kind: KindName) -> str:
    spec = crd(kind)["spec"]
    names = spec["names"]
    scope = "one namespace" if kind.namespaced else "the whole cluster"
    head = (
        f"\n## {kind.kind}.{kind.group}\n\n"
        f"Full name `{kind.plural}.{kind.group}`, short `{names['shortNames'][0]}`; "
        f"objects belong to {scope}.\n"
    )
    return head + "".join(_version(kind, version) for version in spec["versions"])


def _version(kind: KindName, version: Json) -> str:
    schema = version["schema"]["openAPIV3Schema"]
    stored = ", the version that is stored" if version["storage"] else ""
    title = f"\n### {kind.kind} {version['name']}{stored}\n\n"
    head = "\n| field | type | |\n|---|---|---|\n"
    rows = "".join(
        _row(f"`{path}`", kind_of, text)
        for place in ("spec", "status")
        if place in schema["properties"]
        for path, kind_of, text in _fields(schema["properties"][place], place)
    )
    return f"{title}{schema['description']}\n{head}{rows}"


def _fields(schema: Json, path: str) -> Iterator[tuple[str, str, str]]:
    """Yield every field below, depth first; a tree of templates is listed once, not per level."""
    for name, field in schema.get("properties", {}).items():
        items = field.get("items", {})
        here = f"{path}.{name}" + ("[]" if items else "")
        yield here, _type(field), field["description"]
        if name == TREE and TREE in path:
            continue
        yield from _fields(items or field, here)


def _type(field: Json) -> str:
    if field["type"] != "array":
        return str(field.get("format", field["type"]))
    kind = f"list of {field['items']['type']}s"
    keys = field.get("x-kubernetes-list-map-keys")
    return f"{kind}, by {keys[0]}" if keys else kind


def _rule(rule: Rule) -> tuple[str, str, str, str]:
    text = rule.text or {
        rule.limit > 0: f"at most {rule.limit}",
        bool(rule.words): f"one of {', '.join(rule.words)}",
    }.get(True, "must be unique")
    where = ", ".join(f"`{end}`" for end in rule.where)
    return rule.id, where, rule.reason.removeprefix("FieldValue"), text


def _row(*cells: str) -> str:
    shown = (cell.replace("|", "\\|").replace("\n", " ") for cell in cells)
    return f"| {' | '.join(shown)} |\n"


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(reference())
