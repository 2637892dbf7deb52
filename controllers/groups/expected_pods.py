"""What a group waits for, once nobody creates its pods any more."""

from controllers.cache.objects import POD_GROUPS, Group
from controllers.runtime.controller import Writer
from kube.client.patch import PatchBuilder, pointer


async def wait_for_nobody(writer: Writer, group: Group) -> None:
    """Let each pod that still comes start alone. Raises kube errors."""
    meta, minimum = group.metadata, group.min_count
    if meta.deletion_timestamp is None and minimum is not None and minimum > 1:
        ops = PatchBuilder().add(pointer("spec", "schedulingPolicy", "gang", "minCount"), 1)
        await writer.patch(POD_GROUPS, meta.name, ops.of_uid(meta.uid), meta.namespace)


async def expect_nothing(writer: Writer, group: Group) -> None:
    """Take off what a PodGroup expects: its held places are given back. Raises kube errors."""
    if group.expected:
        meta, ops = group.metadata, PatchBuilder().remove(pointer("spec", "expectedPods"))
        await writer.patch(POD_GROUPS, meta.name, ops.of_uid(meta.uid), meta.namespace)
