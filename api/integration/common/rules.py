"""Rules that several kinds of owners share."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from api import causes
from api.causes import Cause
from api.constants import (
    ANNOTATION_DISRUPTION_MODE,
    ANNOTATION_MIN_COUNT,
    ANNOTATION_PREFERRED_TOPOLOGY,
    ANNOTATION_PROVISIONING_REQUEST,
    ANNOTATION_SHARED_CLAIMS,
    ANNOTATION_SLICE_SIZE,
    ANNOTATION_SLICE_TOPOLOGY,
    ANNOTATION_TOPOLOGY,
    ANNOTATION_TREE,
)
from api.integration.common.options import BASIC, Options
from api.reading import text
from api.scheduler_names import SchedulerNames, is_open

PodSpec = tuple[str, Mapping[str, Any]]
"""The path of a pod template's spec, and the spec."""

CONSUMES_TEXT: Final = (
    "the pods use the ProvisioningRequest that Muster creates for their root, which has another "
    "name: remove this annotation, or the annotation provisioning-request"
)
GROUPED_TEXT: Final = "has no effect: the pod template already names a group"
ALONE_TEXT: Final = (
    "only an object whose gang-mode creates its groups can be in a tree: set gang-mode here, or "
    "remove this annotation"
)
OF_ROOT_TEXT: Final = (
    "only the root of a tree has it, which several owners share: remove this annotation"
)


def check_minimum(options: Options, limit: int, members: str) -> Iterator[Cause]:
    """Yield causes for a `min-count` that is not 1 to the number of members."""
    if options.min_count is None:
        return
    path = options.at(ANNOTATION_MIN_COUNT)
    if options.mode == BASIC:
        yield causes.forbidden(
            path,
            "a group with gang-mode Basic has no minCount: use "
            "gang-mode Gang, or remove this annotation",
        )
    elif options.min_count > limit:
        yield causes.invalid(
            path,
            str(options.min_count),
            f"must be between 1 and {limit}, inclusive, the number of its {members}",
        )


def check_slices(options: Options, pods: int, members: str) -> Iterator[Cause]:
    """Yield causes for slices that do not divide the number of pods, or the `min-count`."""
    # An owner without pods may get some later.
    if options.slices is None or not pods:
        return
    size, path = options.slices.size, options.at(ANNOTATION_SLICE_SIZE)
    if size > pods:
        problem = f"must be between 1 and {pods}, inclusive, the number of its {members}"
        yield causes.invalid(path, str(size), problem)
    elif pods % size:
        problem = (
            f"must divide {pods}, the number of its {members}: a slice that lacks pods never starts"
        )
        yield causes.invalid(path, str(size), problem)
    elif options.min_count is not None and options.min_count % size:
        problem = f"must be a multiple of slice-size, which is {size}: a gang needs complete slices"
        yield causes.invalid(options.at(ANNOTATION_MIN_COUNT), str(options.min_count), problem)


def no_slices(options: Options, problem: str) -> Iterator[Cause]:
    """Yield a cause for slices where no PodGroup can have them."""
    if options.slices is not None:
        yield causes.forbidden(options.at(ANNOTATION_SLICE_SIZE), problem)


def check_tree(options: Options) -> Iterator[Cause]:
    """Yield causes for a tree without groups, and for options that only its root can have."""
    if options.tree is None:
        return
    if not options.asks:
        yield causes.forbidden(options.at(ANNOTATION_TREE), ALONE_TEXT)
    for key, value in options.of_root.items():
        if options.asks and value:
            yield causes.forbidden(options.at(key), OF_ROOT_TEXT)


def check_scheduler(
    pod_spec: Mapping[str, Any], path: str, schedulers: SchedulerNames
) -> Iterator[Cause]:
    """Yield a cause for a pod template of another scheduler, whose pods cannot be in a group."""
    name = text(pod_spec.get("schedulerName"))
    if not schedulers.allow(name):
        problem = (
            f"the pods of a group need schedulerName {schedulers.phrase}: remove schedulerName"
        )
        yield causes.invalid(f"{path}.schedulerName", name, problem)


def one_priority(pod_specs: Sequence[PodSpec]) -> Iterator[Cause]:
    """Yield causes for different priorities in one gang (KEP-6012)."""
    named = [(path, text(spec.get("priorityClassName"))) for path, spec in pod_specs]
    for path, name in named[1:]:
        first_path, first = named[0]
        if name != first:
            yield causes.invalid(
                f"{path}.priorityClassName",
                name,
                f"must be the same as {first_path}.priorityClassName ({first or 'unset'}), "
                "because the pods of one gang have one priority",
            )


def check_schedulers(
    pod_specs: Sequence[PodSpec], schedulers: SchedulerNames, *, one_gang: bool = True
) -> Iterator[Cause]:
    """Yield causes for other schedulers, and for different ones in one gang."""
    first = ""
    for path, spec in pod_specs:
        yield from check_scheduler(spec, path, schedulers)
        name = text(spec.get("schedulerName"))
        chosen = schedulers.default if is_open(name) else name
        first = first or chosen
        if one_gang and chosen != first and schedulers.allow(name):
            yield causes.invalid(
                f"{path}.schedulerName",
                name,
                f"must be the same as {pod_specs[0][0]}.schedulerName ({first}), because the pods "
                "of one gang have one scheduler",
            )


def frozen(new: Options, old: Options) -> Iterator[Cause]:
    """Yield the causes for changed options that are immutable: all but `min-count`."""
    if new.mode != old.mode:
        yield causes.immutable(new.mode_path if new.mode else old.mode_path, new.mode or None)
    if (new.topology, new.preferred) != (old.topology, old.preferred):
        said = new if new.topology else old
        key = ANNOTATION_PREFERRED_TOPOLOGY if said.preferred else ANNOTATION_TOPOLOGY
        yield causes.immutable(new.at(key), new.topology or None)
    if new.slices != old.slices:
        value = new.slices and str(new.slices.size)
        yield causes.immutable(new.at(ANNOTATION_SLICE_SIZE), value)
    if new.disruption != old.disruption:
        yield causes.immutable(new.at(ANNOTATION_DISRUPTION_MODE), new.disruption or None)
    if new.request != old.request:
        # The pods state from their creation whether a request stands for them.
        yield causes.immutable(new.at(ANNOTATION_PROVISIONING_REQUEST), new.request or None)
    if new.claims != old.claims:
        # The pods name these claims from their creation.
        yield causes.immutable(new.at(ANNOTATION_SHARED_CLAIMS), ",".join(new.claims) or None)
    if new.tree != old.tree:
        # Existing groups cannot get another parent.
        yield causes.immutable(new.at(ANNOTATION_TREE), new.tree.text() if new.tree else None)


def unused(options: Options) -> Iterator[str]:
    """Yield the warnings for options at a level that has no group."""
    said = {
        ANNOTATION_MIN_COUNT: options.min_count is not None,
        ANNOTATION_PREFERRED_TOPOLOGY: bool(options.topology) and options.preferred,
        ANNOTATION_TOPOLOGY: bool(options.topology) and not options.preferred,
        ANNOTATION_SLICE_SIZE: options.slices is not None,
        ANNOTATION_SLICE_TOPOLOGY: options.slices is not None,
        ANNOTATION_DISRUPTION_MODE: bool(options.disruption),
        **{key: bool(value) for key, value in options.of_root.items()},
        ANNOTATION_SHARED_CLAIMS: bool(options.claims),
    }
    for key, is_said in said.items():
        if is_said:
            yield f"{options.at(key)}: has no effect: no gang-mode creates a group at this level"
