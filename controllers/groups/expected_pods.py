"""Pods that a group expects, once nobody creates them any more."""

from controllers.cache.objects import POD_GROUPS, Group
from controllers.runtime.controller import Writer
from kube.client.patch import PatchBuilder, pointer


async def expect_nothing(writer: Writer, group: Group) -> None:
    """Take off what a PodGroup expects: its held places are given back. Raises kube errors."""
    if group.expected:
        meta, ops = group.metadata, PatchBuilder().remove(pointer("spec", "expectedPods"))
        await writer.patch(POD_GROUPS, meta.name, ops.of_uid(meta.uid), meta.namespace)
