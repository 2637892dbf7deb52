"""Annotations and labels under our prefix that nothing reads, as findings."""

from __future__ import annotations

from api.integration.unread_keys import unread_keys
from api.reading import dig, text
from cli.doctor.findings import About, Limited, warning
from kube.meta import Json


def check_keys(kind: str, obj: Json, found: Limited) -> None:
    """Adds what nothing reads of an object, of its templates too."""
    namespace, name = (text(dig(obj, "metadata", key)) for key in ("namespace", "name"))
    # A namespace is its own tenant.
    about = About(kind, name, name if kind == "Namespace" else namespace)
    for path, instead in unread_keys(kind, obj):
        if found.takes(about.namespace):
            found.add(warning(found.check, about, f"{path}: nothing reads this", instead()))
