"""JobSet's exclusive placement: the first pod of a Job must have a node before the others exist.

These are facts of the JobSet controller and its webhooks, as of v0.11.0. The annotation
`exclusive-topology` of a JobSet or of a Job template is copied to the pods. JobSet's webhook then
rejects pods of index 1 and up until the pod of index 0 has a node. They get the domain of that node
as a node selector. The annotation `node-selector` next to it, or on the pods, turns this off: users
label the nodes in advance.
"""

from collections.abc import Mapping
from typing import Any, Final

from api.integration.common.options import annotation_path
from api.reading import annotations_of

ANNOTATION_EXCLUSIVE: Final = "alpha.jobset.sigs.k8s.io/exclusive-topology"
ANNOTATION_NODE_SELECTOR: Final = "alpha.jobset.sigs.k8s.io/node-selector"

FIRST_POD_TEXT: Final = (
    "JobSet creates the other pods of a Job after its first pod has a node, and the scheduler "
    "places a gang after all its pods exist, so no pod would start: set the annotation "
    f'{ANNOTATION_NODE_SELECTOR}: "true" and label the nodes, lower min-count to the number of '
    "first pods, or use the annotation topology instead"
)


def exclusive_path(
    jobset: Mapping[str, Any], template: Mapping[str, Any], pod: Mapping[str, Any], path: str
) -> str:
    """Return the annotation by which pods of a Job wait for its first pod; empty if they do not.

    `path` is the path of the Job template.
    """
    levels = {"": jobset, path: template, f"{path}.spec.template": pod}
    said = {where: annotations_of(level) for where, level in levels.items()}
    asking = [where for where, annotations in said.items() if ANNOTATION_EXCLUSIVE in annotations]
    selecting = {where for where, it in said.items() if ANNOTATION_NODE_SELECTOR in it}
    if not asking or selecting & {*asking, f"{path}.spec.template"}:
        return ""
    return annotation_path(asking[-1], ANNOTATION_EXCLUSIVE)
