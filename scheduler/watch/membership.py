"""Membership of pods: a pod that names a group of another owner does not count for it.

This holds in any order of events. A pod whose own group stands for that name (`api.membership`)
counts for its own group. A waiting pod of another owner is kept back, like a gated one. One that
runs or ran counts as a pod without a group.
"""

from __future__ import annotations

from dataclasses import replace

from api.constants import POD_GROUP
from api.membership import Owners, belongs, owners_of, usual_name
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
        self._substitutes: dict[Key, dict[str, Owners]] = {}
        self._usual_name_key: dict[Key, Key] = {}

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
        # A pod without claims belongs to whatever group has the name.
        found = self._substitutes.get(key, {}) if claims else {}
        return next((name for name, owners in found.items() if belongs(claims, owners)), "")

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
        naming = [*self._naming(key)]
        if (instead := self._record_substitute(key, group, owners)) is not None:
            naming += self._naming(instead)
        return [now for info in naming if not self._is_known(now := self.evaluate(info))]

    def _record_substitute(
        self, key: Key, group: GroupObject | None, owners: Owners | None
    ) -> Key | None:
        """Return the name that the group stands for, or stood for until now."""
        said = usual_name(group.metadata) if group is not None else ""
        instead = (key[0], said) if said else self._usual_name_key.get(key)
        if instead is None:
            return None
        if owners is not None and said:
            self._usual_name_key[key] = instead
            self._substitutes.setdefault(instead, {})[key[1]] = owners
            return instead
        del self._usual_name_key[key]
        del self._substitutes[instead][key[1]]
        if not self._substitutes[instead]:
            del self._substitutes[instead]
        return instead

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
    meta, workload = group.metadata, group.spec.workload_ref
    template = workload.template_name if workload else ""
    return owners_of(meta, meta.name, template, leaving=meta.deletion_timestamp is not None)
