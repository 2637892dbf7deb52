"""Custom resource definitions for the suite: created, awaited, and deleted."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from e2e.harness.support import definitions
from e2e.harness.support.rest import Rest

Object = dict[str, Any]

SCHEMA: Object = {
    "type": "object",
    "properties": {
        "spec": {
            "type": "object",
            "required": ["size"],
            "properties": {
                "size": {"type": "integer", "minimum": 1, "maximum": 10},
                "colour": {"type": "string", "default": "grey", "enum": ["grey", "red"]},
                "code": {"type": "string", "pattern": "^[a-z]+$", "maxLength": 5},
                "anything": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                "port": {"x-kubernetes-int-or-string": True},
                "nested": {
                    "type": "object",
                    "properties": {"on": {"type": "boolean", "default": True}},
                },
                "parts": {
                    "type": "array",
                    "x-kubernetes-list-type": "map",
                    "x-kubernetes-list-map-keys": ["name"],
                    "items": {
                        "type": "object",
                        "required": ["name"],
                        "properties": {
                            "name": {"type": "string"},
                            "count": {"type": "integer", "default": 1},
                        },
                    },
                },
                "tags": {
                    "type": "array",
                    "x-kubernetes-list-type": "set",
                    "items": {"type": "string"},
                },
                "replicas": {"type": "integer"},
            },
        },
        "status": {
            "type": "object",
            "properties": {
                "ready": {"type": "boolean"},
                "replicas": {"type": "integer"},
                "selector": {"type": "string"},
            },
        },
    },
}


def definition(group: str, *, scope: str = "Namespaced", schema: Object | None = None) -> Object:
    """Return a CRD `widgets.GROUP` with status, scale and two printer columns."""
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"widgets.{group}"},
        "spec": {
            "group": group,
            "scope": scope,
            "names": {
                "plural": "widgets",
                "singular": "widget",
                "kind": "Widget",
                "shortNames": ["wd"],
                "categories": ["everything"],
            },
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": schema or SCHEMA},
                    "subresources": {
                        "status": {},
                        "scale": {
                            "specReplicasPath": ".spec.replicas",
                            "statusReplicasPath": ".status.replicas",
                            "labelSelectorPath": ".status.selector",
                        },
                    },
                    "additionalPrinterColumns": [
                        {"name": "Size", "type": "integer", "jsonPath": ".spec.size"},
                        {
                            "name": "Ready",
                            "type": "boolean",
                            "jsonPath": ".status.ready",
                            "priority": 1,
                        },
                    ],
                }
            ],
        },
    }


@asynccontextmanager
async def installed(rest: Rest, crd: Object) -> AsyncIterator[Object]:
    """Create the CRD, wait until it is served, and delete it in the end."""
    (await rest.post(definitions.PATH, crd)).expect(201)
    try:
        await definitions.served(rest, crd["metadata"]["name"])
        yield crd
    finally:
        await rest.delete(f"{definitions.PATH}/{crd['metadata']['name']}")


def widget(group: str, name: str, spec: Object | None = None, **metadata: Any) -> Object:
    return {
        "apiVersion": f"{group}/v1",
        "kind": "Widget",
        "metadata": {"name": name, **metadata},
        "spec": {"size": 3} if spec is None else spec,
    }
