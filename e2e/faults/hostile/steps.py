"""The requests of a tenant, in sequence, and their display."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

import yaml

from api.constants import COMPOSITE_POD_GROUP, COSCHEDULING, POD_GROUP, WORKLOAD
from e2e.harness.objects import Json
from kube.client.resources import (
    JOBS,
    JOBSETS,
    PDBS,
    PODS,
    PVCS,
    RESOURCE_CLAIM_TEMPLATES,
    RESOURCE_CLAIMS,
    Resource,
)

Verb = Literal["create", "patch", "delete"]

COSCHEDULINGS = Resource(*COSCHEDULING)
GROUPS = Resource(*POD_GROUP)
COMPOSITES = Resource(*COMPOSITE_POD_GROUP)
WORKLOADS = Resource(*WORKLOAD)

KINDS = (
    *(JOBSETS, JOBS, COSCHEDULINGS, WORKLOADS, COMPOSITES, GROUPS, PODS, PDBS, PVCS),
    *(RESOURCE_CLAIM_TEMPLATES, RESOURCE_CLAIMS),
)
"""All kinds that a tenant of the fuzz writes; owners before the objects created for them."""


@dataclass(frozen=True, slots=True)
class Step:
    """One request. `body` is an object, a merge patch, or the options of a deletion."""

    verb: Verb
    resource: Resource
    name: str
    body: Json = field(default_factory=dict)


def create(resource: Resource, name: str, body: Json, **metadata: object) -> Step:
    """Return the creation of an object; `body` has everything except the kind and the name."""
    meta = {"name": name, **(body.get("metadata") or {}), **metadata}
    kind = {"apiVersion": resource.api_version, "kind": resource.kind}
    return Step("create", resource, name, {**kind, **body, "metadata": meta})


def shown(steps: Sequence[Step]) -> str:
    """Return the requests as YAML documents, to repeat them by hand."""
    return "---\n".join(f"# {_head(step)}\n{_text(step.body)}" for step in steps)


def _head(step: Step) -> str:
    return f"{step.verb} {step.resource.full_name}/{step.name}"


def _text(body: Json) -> str:
    text: str = yaml.dump(body, Dumper=_Plain, allow_unicode=True, sort_keys=False)
    return text if len(text) < _LONG else f"{text[:_LONG]}\n# ... {len(text)} characters in all\n"


class _Plain(yaml.SafeDumper):
    """A YAML dumper without anchors: equal values are repeated, as a user would write them."""

    def ignore_aliases(self, data: object) -> bool:
        return True


_LONG = 20_000
