"""Release of a group's minCount and expected pods after the last controller of its pods is gone."""

from controllers.cache.objects import POD_GROUPS, Group
from controllers.runtime.controller import Writer
from kube.client.patch import PatchBuilder, pointer


async def release_minimum(writer: Writer, group: Group) -> None:
    """Set minCount to 1, so that each further pod starts alone. Raises kube errors."""
    meta, minimum = group.metadata, group.min_count
    # A clean-up pod may come after the gang has ended, as KubeRay's does. With the old minCount it
    # would wait for peer pods that never come.
    if meta.deletion_timestamp is None and minimum is not None and minimum > 1:
        ops = PatchBuilder().add(pointer("spec", "schedulingPolicy", "gang", "minCount"), 1)
        await writer.patch(group.leaf_resource, meta.name, ops.of_uid(meta.uid), meta.namespace)


async def release_expected_pods(writer: Writer, group: Group) -> None:
    """Remove `expectedPods` from a PodGroup, which releases its held places. Raises kube errors."""
    if group.expected:
        meta, ops = group.metadata, PatchBuilder().remove(pointer("spec", "expectedPods"))
        await writer.patch(POD_GROUPS, meta.name, ops.of_uid(meta.uid), meta.namespace)
