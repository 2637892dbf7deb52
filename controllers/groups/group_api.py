"""The API in which an owner's groups are created: Muster's, or Kubernetes' own.

Admission chose it when the owner was created (`api.integration.common.native`). Here, the choice
becomes objects, or the reason why it cannot.
"""

from collections.abc import Callable, Iterable
from functools import partial
from typing import Final, NamedTuple

from api.constants import ANNOTATION_GROUPS_API, ANNOTATION_NOT_NATIVE, EVENT_NOT_NATIVE
from api.integration.common.native import UNSERVED_TEXT, GroupsApi, native_form
from api.integration.common.trees import in_tree
from controllers.cache.informers import Caches
from controllers.cache.objects import NATIVE_POD_GROUPS, Owner
from controllers.runtime.controller import BlockedError, InTheWayError
from kube.client.meta import Json

# Nothing reports that the API server serves the kind, or that a role has changed.
_RETRY_SECONDS: Final = 15.0
"""Seconds until the next attempt while native groups cannot be read or created."""

_DROPPED_TEXT: Final = "the API server dropped spec.schedulingGroup from its pod template"


class GroupApi(NamedTuple):
    """One API for groups: `groups` returns wanted groups of Muster's, parents first, in it.

    `has_workloads` is True if each owner has a Workload of its own, and `expects` if groups may
    expect pods.
    """

    has_workloads: bool
    expects: bool
    groups: Callable[[Iterable[Json]], list[Json]]


def _native(wanted: Iterable[Json]) -> list[Json]:
    return [native_form(it) for it in wanted]


MUSTER: Final = GroupApi(has_workloads=True, expects=True, groups=list)
NATIVE: Final = GroupApi(has_workloads=False, expects=False, groups=_native)


def below_root(root: str) -> GroupApi:
    """Return the API of owners whose groups are below the root of a tree, of that name."""
    return GroupApi(False, True, partial(in_tree, root=root))


class GroupApis:
    """The API of each owner, by its admission, the setting, and what is served."""

    def __init__(self, caches: Caches, setting: GroupsApi = GroupsApi.MUSTER) -> None:
        self._caches = caches
        self._setting = setting

    def of(self, owner: Owner, *, native: bool) -> GroupApi:
        """Return the API of an owner, whose pods name a `native` group or one of Muster's.

        Raises InTheWayError while native groups are not served, or not readable, and BlockedError
        if the owner cannot have them. Both only if it must not have Muster's.
        """
        must = self._setting is GroupsApi.NATIVE
        if not native:
            if must and owner.metadata.annotations.get(ANNOTATION_GROUPS_API) == self._setting:
                raise BlockedError(EVENT_NOT_NATIVE, _blocked(owner))
            return MUSTER
        problem = self._caches.unlisted.get(NATIVE_POD_GROUPS)
        if self._caches.native and problem is None:
            return NATIVE
        # Where they are served, its pods can be in a native group only.
        if self._caches.native:
            raise InTheWayError(f"failed to list native PodGroups: {problem}", _RETRY_SECONDS)
        if must:
            raise InTheWayError(f"groups.api is native, and {UNSERVED_TEXT}", _RETRY_SECONDS)
        return MUSTER

    def note(self, owner: Owner, *, native: bool) -> str:
        """Return the reason why an owner has groups of Muster although it might have native ones.

        It is empty without such a reason.
        """
        if native and not self._caches.native:
            return f"{UNSERVED_TEXT}: Muster's own groups replace them"
        lacks = owner.metadata.annotations.get(ANNOTATION_NOT_NATIVE, "")
        return f"{lacks}: it has Muster's own groups" if lacks and not native else ""


def _blocked(owner: Owner) -> str:
    lacks = owner.metadata.annotations.get(ANNOTATION_NOT_NATIVE) or _DROPPED_TEXT
    return (
        f"{lacks}. groups.api is native, so its pods wait: recreate the {owner.kind} without that, "
        "or set groups.api to auto"
    )
