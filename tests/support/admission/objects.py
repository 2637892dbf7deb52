"""Objects of the cases: valid by default, a keyword changes one field."""

from typing import Any

from api.constants import (
    ANNOTATION_PREEMPTION_DELAY,
    ANNOTATION_PROVISIONING_REQUEST,
    ANNOTATION_START_TIMEOUT,
    GROUP,
)
from tests.support.admission.case import Json

REF: Json = {"workloadName": "w", "templateName": "t"}
BASIC: Json = {"basic": {}}
SINGLE: Json = {"single": {}}
ALL_MODE: Json = {"all": {}}
DELAY = ANNOTATION_PREEMPTION_DELAY
START_TIMEOUT = ANNOTATION_START_TIMEOUT
START_PATH = f"metadata.annotations[{START_TIMEOUT}]"
DELAY_PATH = f"metadata.annotations[{DELAY}]"
ASKS = ANNOTATION_PROVISIONING_REQUEST
ASKS_PATH = f"metadata.annotations[{ASKS}]"


def gang(count: Any = 2) -> Json:
    return {"gang": {"minCount": count}}


def group_gang(count: Any = 1) -> Json:
    return {"gang": {"minGroupCount": count}}


def topology(*keys: Any) -> Json:
    return {"topology": [{"key": key} for key in keys]}


def claim(name: Any, claim: Any = "claim") -> Json:
    return {"name": name, "resourceClaimName": claim}


def leaf(name: Any = "leaf", **fields: Any) -> Json:
    """Return a template of a gang of two pods; None removes a field."""
    return without_none({"name": name, "schedulingPolicy": gang()} | fields)


def composite(name: Any = "composite", **fields: Any) -> Json:
    """Return a composite template without children."""
    return without_none({"name": name, "schedulingPolicy": group_gang()} | fields)


def flat(*leaves: Json, **spec: Any) -> Json:
    """Return a Workload of these templates, one gang if none are given."""
    return workload(podGroupTemplates=list(leaves) or [leaf()], **spec)


def tree(*composites: Json, **spec: Any) -> Json:
    """Return a Workload of these trees."""
    return workload(compositePodGroupTemplates=list(composites), **spec)


def chain(depth: int, last: Json | None = None) -> Json:
    """Return a Workload of nested composites, with `last` below the lowest."""
    node = composite(f"c{depth}", podGroupTemplates=[last or leaf()])
    for level in range(depth - 1, 0, -1):
        node = composite(f"c{level}", compositePodGroupTemplates=[node])
    return tree(node)


def workload(**spec: Any) -> Json:
    return _object("Workload", "workload", spec)


def pod_group(name: str = "group", **spec: Any) -> Json:
    """Return a PodGroup of two pods; None removes a field."""
    return _object("PodGroup", name, {"schedulingPolicy": gang()} | spec)


def waiting_group(**spec: Any) -> Json:
    """Return a PodGroup without a policy, which waits for its template."""
    return _object("PodGroup", "group", {"workloadRef": REF} | spec)


def composite_group(name: str = "composite", **spec: Any) -> Json:
    """Return a CompositePodGroup of one child; None removes a field."""
    return _object(
        "CompositePodGroup", name, {"workloadRef": REF, "schedulingPolicy": group_gang()} | spec
    )


def subsets(*named: tuple[Any, Any], **spec: Any) -> Json:
    """Return a PodGroup of KEP-3370; each subset is a name and its minMember."""
    listed = [without_none({"name": name, "minMember": least}) for name, least in named]
    made = _object("PodGroup", "group", {"subsets": listed} | spec)
    return made | {"apiVersion": "coscheduling.muster.dev/v1alpha1"}


def in_version(version: str, kind: str, **spec: Any) -> Json:
    """Return an object as a client of an older version writes it."""
    return _object(kind, kind.lower(), spec) | {"apiVersion": f"{GROUP}/{version}"}


def with_metadata(obj: Json, **fields: Any) -> Json:
    return obj | {"metadata": obj["metadata"] | fields}


def with_status(obj: Json, **status: Any) -> Json:
    return obj | {"status": status}


def without_none(fields: Json) -> Json:
    return {key: value for key, value in fields.items() if value is not None}


def _object(kind: str, name: str, spec: Json) -> Json:
    return {
        "apiVersion": f"{GROUP}/v1alpha3",
        "kind": kind,
        "metadata": {"name": name},
        "spec": without_none(spec),
    }
