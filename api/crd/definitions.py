"""The CustomResourceDefinitions: the kinds, their versions, and their conversion."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml
from pydantic import BaseModel

from api.constants import (
    CATEGORY,
    COMPOSITE_POD_GROUP,
    COSCHEDULING,
    POD_GROUP,
    RESERVATION,
    V1ALPHA1,
    V1ALPHA2,
    VERSION,
    WORKLOAD,
    KindName,
)
from api.crd import columns
from api.crd.schema import Json, root_schema
from api.models import coscheduling, reservation, v1alpha1, v1alpha2, v1alpha3

HEADER: Final = "# Generated from api/models by `make generate`; do not edit.\n"


@dataclass(frozen=True, slots=True)
class Version:
    """A served version of a kind."""

    name: str
    model: type[BaseModel]
    columns: list[columns.Column]


@dataclass(frozen=True, slots=True)
class Definition:
    """A kind with its versions; the first one is stored."""

    short_name: str
    versions: tuple[Version, ...]


DEFINITIONS: Final[Mapping[KindName, Definition]] = {
    WORKLOAD: Definition(
        "mwl",
        (
            Version(VERSION, v1alpha3.Workload, columns.WORKLOAD),
            Version(V1ALPHA2, v1alpha2.Workload, columns.WORKLOAD),
            Version(V1ALPHA1, v1alpha1.Workload, columns.WORKLOAD),
        ),
    ),
    POD_GROUP: Definition(
        "mpg",
        (
            Version(VERSION, v1alpha3.PodGroup, columns.POD_GROUP),
            Version(V1ALPHA2, v1alpha2.PodGroup, columns.POD_GROUP_V1ALPHA2),
        ),
    ),
    COMPOSITE_POD_GROUP: Definition(
        "mcpg", (Version(VERSION, v1alpha3.CompositePodGroup, columns.COMPOSITE_POD_GROUP),)
    ),
    COSCHEDULING: Definition(
        "mcos", (Version(COSCHEDULING.version, coscheduling.PodGroup, columns.COSCHEDULING),)
    ),
    RESERVATION: Definition(
        "mrsv", (Version(RESERVATION.version, reservation.Reservation, columns.RESERVATION),)
    ),
}
DEFINED: Final = tuple(DEFINITIONS)

# The API server requests a conversion only if a client uses another version than the stored one.
# The definition names the Service; the webhook adds its CA, or replaces the Service by its URL.
_CONVERSION: Final[Json] = {
    "strategy": "Webhook",
    "webhook": {
        "conversionReviewVersions": ["v1"],
        "clientConfig": {
            "service": {
                "name": "muster-webhook",
                "namespace": "muster-system",
                "path": "/convert",
                "port": 443,
            }
        },
    },
}


def crd(kind: KindName) -> Json:
    """Return the CustomResourceDefinition of one of Muster's kinds."""
    definition = DEFINITIONS[kind]
    spec: Json = {
        "group": kind.group,
        "scope": "Namespaced" if kind.namespaced else "Cluster",
        "names": {
            "kind": kind.kind,
            "listKind": f"{kind.kind}List",
            "plural": kind.plural,
            "singular": kind.kind.lower(),
            "shortNames": [definition.short_name],
            **_categories(kind),
        },
        "versions": [
            _version(version, stored=version is definition.versions[0])
            for version in definition.versions
        ],
    }
    if len(definition.versions) > 1:
        spec["conversion"] = _CONVERSION
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{kind.plural}.{kind.group}"},
        "spec": spec,
    }


def write(directory: Path) -> list[Path]:
    """Write one file for each kind and return their paths. Raises OSError."""
    directory.mkdir(parents=True, exist_ok=True)
    written = []
    for kind in DEFINED:
        path = directory / f"{kind.group}_{kind.plural}.yaml"
        path.write_text(HEADER + yaml.dump(crd(kind), Dumper=_Dumper, sort_keys=False, width=100))
        written.append(path)
    return written


def _version(version: Version, *, stored: bool) -> Json:
    made: Json = {
        "name": version.name,
        "served": True,
        "storage": stored,
        "schema": {"openAPIV3Schema": root_schema(version.model)},
        "additionalPrinterColumns": version.columns,
    }
    if "status" in version.model.model_fields:
        made["subresources"] = {"status": {}}
    return made


def _categories(kind: KindName) -> Json:
    # `kubectl get muster` must not require rights to cluster-scoped kinds.
    return {"categories": [CATEGORY]} if kind.namespaced else {}


class _Dumper(yaml.SafeDumper):
    """A dumper that repeats equal parts: anchors make a manifest hard to read."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002 - the base class asks per value
        return True
