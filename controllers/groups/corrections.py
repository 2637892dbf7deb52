"""Changes to existing generated objects as JSON patches: pure functions."""

from collections.abc import Iterator, Mapping

from api.constants import (
    ANNOTATION_MIN_COUNT_BASIS,
    ANNOTATION_SCHEDULE_TIMEOUT,
    ANNOTATION_START_TIMEOUT,
)
from api.integration.common.holding import NOTES as HOLD_NOTES
from controllers.cache.objects import Group
from kube.client.meta import Json
from kube.client.patch import PatchBuilder, pointer


def corrections(found: Group, wanted: Json) -> PatchBuilder:
    """Return the patch from a live group to the wanted one.

    It covers the minimums with the annotation of their basis, the timeouts, the hold annotations
    and `expectedPods`. A hold annotation that the owner does not set keeps the value on the group.
    """
    ops = PatchBuilder()
    notes, live = wanted["metadata"]["annotations"], found.metadata.annotations
    for key in (ANNOTATION_SCHEDULE_TIMEOUT, ANNOTATION_START_TIMEOUT):
        _correct_timeout(ops, live, notes, key)
    for field, value in _minimums(wanted["spec"]["schedulingPolicy"]):
        gang = found.policy.get("gang")
        if isinstance(gang, dict) and gang.get(field) != value:
            ops.add(pointer("spec", "schedulingPolicy", "gang", field), value)
    # A user may set these on the group. An owner that does not set them has no opinion.
    for key in (ANNOTATION_MIN_COUNT_BASIS, *HOLD_NOTES):
        if notes.get(key) not in {None, live.get(key)}:
            ops.add(pointer("metadata", "annotations", key), notes[key])
    # A wanted group without the field has no opinion on it, so expected pods remain.
    pods = wanted["spec"].get("expectedPods", found.expected)
    if pods != found.expected:
        ops.add(pointer("spec", "expectedPods"), pods)
    return ops


def _correct_timeout(
    ops: PatchBuilder, live: Mapping[str, str], wanted: Mapping[str, str], key: str
) -> None:
    path = pointer("metadata", "annotations", key)
    value = wanted.get(key)
    if value == live.get(key):
        return
    if value is None:
        ops.remove(path)
    else:
        ops.add(path, value)


def correct_minimums(
    ops: PatchBuilder, path: tuple[str | int, ...], live: Json, wanted: Json
) -> None:
    """Add the changes from the minimums of live templates to the wanted ones.

    Templates are matched by name: an earlier version of Muster may have created more of them.
    """
    for key in ("podGroupTemplates", "compositePodGroupTemplates"):
        by_name = {it.get("name"): it for it in wanted.get(key) or []}
        for at, found in enumerate(live.get(key) or []):
            expected = by_name.get(found.get("name"))
            if expected is None:
                continue
            here = (*path, key, at)
            for field, value in _minimums(expected["schedulingPolicy"]):
                if (found.get("schedulingPolicy") or {}).get("gang", {}).get(field) != value:
                    ops.add(pointer(*here, "schedulingPolicy", "gang", field), value)
            correct_minimums(ops, here, found, expected)


def _minimums(policy: Json) -> Iterator[tuple[str, int]]:
    yield from policy.get("gang", {}).items()
