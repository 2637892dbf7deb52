"""Membership of pods: a pod that names a group of another owner does not count for it.

The order of events does not matter. A pod whose own group stands for that name, or has the name of
an earlier version (`api.membership`), counts for its own group. A waiting pod of another owner is
held back, like a gated one. One that runs or ran counts as a pod without a group.
"""

from __future__ import annotations

from dataclasses import replace

from api.constants import POD_GROUP
from api.membership import (
    Owners,
    belongs,
    current_name,
    owners_of,
    plain_name,
    usual_name,
)
from kube.client.meta import Key
from scheduler.core.state.state import State
from scheduler.core.values.model import PodInfo
from scheduler.decoding.objects import GroupObject


class Membership:
    """The owners of PodGroups, and the pods that name a group of another owner."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._owners: dict[Key, Owners] = {}
        self._strangers: dict[Key, dict[str, PodInfo]] = {}
        self._named: dict[str, Key] = {}
        self._substitutes: dict[Key, dict[str, tuple[Owners, bool]]] = {}
        self._other_names: dict[Key, list[Key]] = {}

    def evaluate(self, info: PodInfo) -> PodInfo:
        """Return the pod as it counts."""
        # Decided again from the start: its labels or its owner may have changed.
        self.forget(info.uid)
        if info.group is None or info.group_kind != POD_GROUP.kind:
            return info
        key = (info.namespace, info.group)
        owners = self._owners.get(key)
        if owners is not None and belongs(info.membership.claims, owners):
            return info
        own = self._substitute(key, info)
        if owners is None and not own:
            return info
        self._named[info.uid] = key
        self._strangers.setdefault(key, {})[info.uid] = info
        return replace(info, group=own) if own else _as_a_stranger(info)

    def _substitute(self, key: Key, info: PodInfo) -> str:
        """Return the pod's own group that stands for the name it gives, or an empty text."""
        claims = info.membership.claims
        for name, (owners, has_earlier_name) in self._substitutes.get(key, {}).items():
            # A pod without claims belongs to whatever group has the name, now or earlier.
            if belongs(claims, owners) and (claims or has_earlier_name):
                return name
        return ""

    def forget(self, uid: str) -> None:
        """Forget a deleted pod, or one that is about to be evaluated again."""
        key = self._named.pop(uid, None)
        if key is None:
            return
        strangers = self._strangers[key]
        del strangers[uid]
        if not strangers:
            del self._strangers[key]

    def on_group_changed(self, key: Key, group: GroupObject | None) -> list[PodInfo]:
        """Apply a PodGroup (None: deleted). Return the pods that count differently from now on."""
        owners = _owners(group)
        # Most events change the status only, and a group may have thousands of pods.
        if owners == self._owners.get(key):
            return []
        if owners is None:
            del self._owners[key]
        else:
            self._owners[key] = owners
        named = [key, *self._record_substitute(key, group, owners)]
        naming = [info for name in named for info in self._naming(name)]
        return [now for info in naming if not self._is_known(now := self.evaluate(info))]

    def _record_substitute(
        self, key: Key, group: GroupObject | None, owners: Owners | None
    ) -> list[Key]:
        """Record other names that its pods may give. Return them, with those until now."""
        before = self._other_names.pop(key, [])
        for name in before:
            del self._substitutes[name][key[1]]
            if not self._substitutes[name]:
                del self._substitutes[name]
        if group is None or owners is None:
            return before
        meta, current = group.metadata, _current_name(group)
        others = {usual_name(meta) or current, plain_name(meta)} - {"", key[1]}
        named = [(key[0], it) for it in sorted(others)]
        for name in named:
            self._substitutes.setdefault(name, {})[key[1]] = (owners, current != key[1])
        if named:
            self._other_names[key] = named
        return [*dict.fromkeys([*before, *named])]

    def _naming(self, key: Key) -> list[PodInfo]:
        """Return the pods that name a group, as they were decoded."""
        group = self._state.forest.groups.get((POD_GROUP.kind, *key))
        members = group.members if group is not None else {}
        strangers = self._strangers.get(key, {})
        return [
            # A member of another group came through a stand-in, and is not a pod of this name.
            *(it.info for uid, it in members.items() if uid not in self._named),
            *strangers.values(),
        ]

    def _is_known(self, info: PodInfo) -> bool:
        known = self._state.pods.get(info.uid)
        return known is not None and known.info == info


def _as_a_stranger(info: PodInfo) -> PodInfo:
    # It can no longer be kept back, and must not count for another owner's gang.
    over = info.node or info.phase in ("Succeeded", "Failed")
    if over:
        return replace(info, group=None)
    return replace(info, membership=replace(info.membership, held=True))


def _owners(group: GroupObject | None) -> Owners | None:
    if group is None:
        return None
    meta = group.metadata
    leaving = meta.deletion_timestamp is not None
    return owners_of(meta, meta.name, _template(group), leaving=leaving)


def _current_name(group: GroupObject) -> str:
    return current_name(group.metadata, group.metadata.name, _template(group))


def _template(group: GroupObject) -> str:
    return group.spec.workload_ref.template_name if group.spec.workload_ref else ""
