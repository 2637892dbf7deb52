"""The objects that a user would create with the workloads of a question."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final, NamedTuple

from analysis.fit.fit import Entry
from analysis.simulate.kinds import KNOWN, LIST, is_simulated
from api.reading import listing, mapping, text

Json = dict[str, Any]

_CLUSTER: Final = "Cluster"
"""How the names of kinds without a namespace begin, of those that are not in `KNOWN`."""


class Created(NamedTuple):
    """The kind of an object, its resource (plural) and API group; `namespace` is empty for none."""

    kind: str
    resource: str
    group: str
    namespace: str


def created_by(entries: Iterable[Entry], namespace: str) -> set[Created]:
    """Return what must be allowed, once each; `namespace` is that of objects that name none."""
    documents = (document for entry in entries for document in entry.documents)
    return {it for document in documents for it in _created(document, namespace)}


def _created(document: Json, namespace: str) -> Iterator[Created]:
    if document["kind"] == LIST:
        for item in filter(None, map(mapping, listing(document.get("items")))):
            if isinstance(item.get("kind"), str):
                yield from _created(dict(item), namespace)
        return
    if not is_simulated(document):
        return
    kind = document["kind"]
    known = KNOWN.get(kind)
    version = text(document.get("apiVersion"))
    group = version.rpartition("/")[0] if version or known is None else known.group
    namespaced = known.namespaced if known is not None else not kind.startswith(_CLUSTER)
    named = text(mapping(document.get("metadata")).get("namespace")) or namespace
    plural = known.plural if known is not None else f"{kind.lower()}s"
    yield Created(kind, plural, group, named if namespaced else "")
