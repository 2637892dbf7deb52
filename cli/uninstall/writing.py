"""Single writes that may be repeated: what is already done, or deleted, counts as done."""

from __future__ import annotations

from collections.abc import Sequence

from api.reading import dig, listing
from cli.uninstall.release import Target
from kube.base.errors import Conflict, Invalid, NotFound
from kube.client.client import Client
from kube.client.patch import PatchBuilder, pointer


async def delete(client: Client, target: Target) -> None:
    """Delete exactly this object, its dependents in the background. Raises kube errors."""
    try:
        await client.delete(
            target.resource,
            target.name,
            target.namespace or None,
            uid=target.uid,
            propagation="Background",
        )
    # A conflict: the UID differs, so another object has the name now.
    except (NotFound, Conflict):
        return


async def patch(client: Client, target: Target, ops: PatchBuilder) -> None:
    """Patch the object. Does nothing if it is deleted or replaced. Raises kube errors."""
    try:
        await client.patch(target.resource, target.name, ops, target.namespace or None)
    except NotFound:
        return
    except Invalid as error:
        # The test of the UID failed: another object has the name now.
        if not error.patch_failed:
            raise


async def drop_finalizers(client: Client, target: Target, names: Sequence[str]) -> None:
    """Remove these finalizers; retry while others change the list. Raises kube errors."""
    while True:
        try:
            obj = await client.get(target.resource, target.name, target.namespace or None)
        except NotFound:
            return
        present = listing(dig(obj, "metadata", "finalizers"))
        at = next((number for number, it in enumerate(present) if it in names), None)
        if at is None or dig(obj, "metadata", "uid") != target.uid:
            return
        path = pointer("metadata", "finalizers", at)
        # The index may be outdated when the patch arrives: the test makes the patch fail then.
        ops = PatchBuilder().of_uid(target.uid).test(path, present[at]).remove(path)
        await patch(client, target, ops)
