"""`expectedPods` of the PodGroups of a LeaderWorkerSet whose workers come after their leader.

With the gate ExpectedPods, the leader of a replica is placed together with its workers, whose slots
are held until they come. Without it the leader is placed alone, and nothing is reserved.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from api import causes, names
from api.causes import Cause
from api.constants import (
    LWS_LABEL_GROUP_INDEX,
    LWS_LABEL_NAME,
    MAX_EXPECTED_PODS,
    MAX_EXPECTED_TEMPLATE,
)
from api.integration.common.placement_templates import encoded_size, placement_template
from api.integration.lws.view import LEADER_FIRST, TOGETHER, LwsView, PodTemplate

Json = dict[str, Any]

LEADER: Final = "leader"
WORKERS: Final = "workers"

TEMPLATE_TEXT: Final = (
    f"must be at most {MAX_EXPECTED_TEMPLATE} bytes of labels, affinity, tolerations and other "
    "scheduling fields, because the group expects these pods: remove some of them, or remove "
    "startupPolicy"
)
SIZE_TEXT: Final = f"must be at most {MAX_EXPECTED_PODS} if workers are created after their leader"


def leader_group(view: LwsView, replica: int) -> str:
    """Return the PodGroup of a replica's leader, if the leader comes first."""
    return names.pod_group_of_value(view.name, LEADER_FIRST.text(), str(replica))


def workers_group(view: LwsView, replica: int) -> str:
    """Return the PodGroup of a replica's workers, or of all its pods if they come together."""
    return names.pod_group_of_value(view.name, TOGETHER.key, str(replica))


def is_expecting(view: LwsView) -> bool:
    """Return True if leaders can be placed together with workers that are created later."""
    if not view.leader_first or view.size < 2 or any(faults(view)):
        return False
    # A rule rejects a template without containers, and with it the complete group.
    return all(_pruned(view, it, 0)["spec"].get("containers") for it in view.templates)


def expected_pods(view: LwsView, sizes: Mapping[int, int]) -> dict[str, list[Json]]:
    """Return `expectedPods` of each PodGroup by name; `sizes` are those of smaller replicas.

    Groups expect nothing if all pods of a replica are created together, or are beyond the limits.
    """
    if not view.leader_first:
        return {}
    expects, found = is_expecting(view), dict[str, list[Json]]()
    for replica in view.grouped:
        counts = {LEADER: 1, WORKERS: min(sizes.get(replica, view.size), view.size) - 1}
        groups = (leader_group(view, replica), workers_group(view, replica))
        # If leaders have no template of their own, they are created from the workers'.
        templates = (view.templates[0], view.templates[-1])
        for group, template, (name, count) in zip(groups, templates, counts.items(), strict=True):
            entry = {"name": name, "count": count, "template": _pruned(view, template, replica)}
            found[group] = [entry] if expects else []
    return found


def faults(view: LwsView) -> Iterator[Cause]:
    """Yield causes for a set with leaders first whose groups would expect more than is allowed."""
    if not view.leader_first:
        return
    if view.size > MAX_EXPECTED_PODS:
        yield causes.invalid("spec.leaderWorkerTemplate.size", view.size, SIZE_TEXT)
    for it in view.templates:
        # The highest replica number has the longest label.
        size = encoded_size(_pruned(view, it, view.grouped.stop))
        if size > MAX_EXPECTED_TEMPLATE:
            yield causes.invalid(it.path, size, TEMPLATE_TEXT)


def _pruned(view: LwsView, template: PodTemplate, replica: int) -> Json:
    labels = {LWS_LABEL_NAME: view.name, LWS_LABEL_GROUP_INDEX: str(replica)}
    return placement_template(template.template, labels)
