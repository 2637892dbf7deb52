"""The state that every decision reads: nodes, pods, groups, volumes and assumed placements.

It corresponds to kube-scheduler's cache and snapshot. Events change it between decisions; a
decision changes it only inside a trial. `changes` collects what the queue needs: the entities to
reconsider, and the nodes on which more pods may fit.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import groupby
from typing import Final

from scheduler.core.devices.kinds import SelectorEvaluator
from scheduler.core.devices.table import DeviceTable, no_evaluator
from scheduler.core.framework.default_plugins import Plugins
from scheduler.core.framework.events import Event
from scheduler.core.framework.framework import Framework
from scheduler.core.groups.forest import Forest, Group, Pod
from scheduler.core.groups.groups import StartWait
from scheduler.core.groups.workload_templates import Templates, WorkloadKey
from scheduler.core.nodes.node_table import NodeTable
from scheduler.core.pods.pod_selectors import PodSelectors
from scheduler.core.pods.shapes import Shape
from scheduler.core.state.disruption_budgets import DisruptionBudgets
from scheduler.core.state.node_pods import NodePods
from scheduler.core.state.nominations import Nomination, Nominations
from scheduler.core.state.pod_shapes import PodShapes
from scheduler.core.state.replica_counts import ReplicaCounts
from scheduler.core.state.search_memory import SearchMemories
from scheduler.core.state.shape_registry import Shapes
from scheduler.core.state.starvation_gate import StarvationGate
from scheduler.core.state.state_changes import StateChanges
from scheduler.core.state.units import Units
from scheduler.core.topology.topology import Topologies
from scheduler.core.values.devices import Allocation
from scheduler.core.values.model import (
    NEWEST_RELEASE,
    ClaimKey,
    GroupKey,
    GroupSpec,
    NodeInfo,
    PodInfo,
    Release,
)
from scheduler.core.volumes.assumed_volumes import AssumedVolume
from scheduler.core.volumes.volume_table import VolumeTable

_STEPS: Final = 256
"""Postponed steps of the forest that `take_changes` does: about a millisecond."""

_ASSUMED: Final = 128
"""Pods that one step of `assume_in_steps` assumes: about two milliseconds."""


class State:
    """Nodes, pods, groups and volumes, kept consistent as events are applied.

    `modest_classes` are the names of the PriorityClasses with preemptionPolicy Never. `singles` are
    the waiting pods without a group. `held` are those that are not decided (`Pod.hold`).
    """

    def __init__(
        self,
        claim_changed: Callable[[ClaimKey], None] = lambda _key: None,
        evaluate: SelectorEvaluator = no_evaluator,
    ) -> None:
        """Call `claim_changed` with changed claims (see VolumeTable); `evaluate` evaluates CEL."""
        self.nodes = NodeTable()
        self.devices = DeviceTable(self.nodes, evaluate, self._lives)
        self.topologies = Topologies(self.nodes, self.devices)
        self.selectors = PodSelectors(self.nodes.match_counts)
        self.volumes = VolumeTable(self.nodes, claim_changed)
        plugins = Plugins.of(
            self.nodes, self.topologies, self.selectors, self.volumes, self.devices
        )
        self.framework = Framework(self.nodes, self.selectors, plugins)
        self.release: Release = NEWEST_RELEASE
        self.disruption_budgets = DisruptionBudgets()
        self.nominations = Nominations(self.framework)
        self.starvation = StarvationGate()
        self.modest_classes: set[str] = set()
        self._begin_workloads()

    def _begin_workloads(self) -> None:
        """Create the tables of pods and groups, empty, on the tables of the cluster."""
        self.pods: dict[str, Pod] = {}
        self.shapes = Shapes(self.selectors, self.framework)
        self.forest = Forest()
        self.units = Units(self.framework, self.forest, self.devices, self.topologies)
        self.searches = SearchMemories()
        self.singles: dict[GroupKey, Pod] = {}
        self.held: dict[GroupKey, Pod] = {}
        self.changes = StateChanges()
        self.node_pods = NodePods(self.framework, self.selectors, self.volumes, self.changes)
        self.pod_shapes = PodShapes(
            self.pods,
            nodes=self.nodes,
            selectors=self.selectors,
            shapes=self.shapes,
            units=self.units,
            change_shape=self._change_shape,
            group_of=self._known_group_of,
        )
        self.replicas = ReplicaCounts(self.pod_shapes.label_index.within)

    @property
    def known_groups(self) -> Mapping[GroupKey, Group]:
        """All groups of the cluster, by key."""
        return self.forest.groups

    def complete(self) -> None:
        """End the addition of workloads; see `HypotheticalState`."""

    def check_units(self, priority: int) -> None:
        """Ensure that `units` has all pods of lower priority; see `HypotheticalState`."""

    @property
    def own_devices(self) -> DeviceTable:
        """The devices, to change them; see `HypotheticalState`."""
        return self.devices

    @property
    def own_volumes(self) -> VolumeTable:
        """The volumes, to change them; see `HypotheticalState`."""
        return self.volumes

    def set_release(self, release: Release) -> None:
        """Decide as kube-scheduler of this release does by default, from now on."""
        if release == self.release:
            return
        self.release = release
        self.devices.set_release(release)
        self.framework.plugins.node_declared_features.enabled = release >= (1, 36)
        self.nodes.filters_changed()
        self.reconsider_all()

    def set_node(self, node: NodeInfo) -> None:
        """Add or update a node. Pods that were bound to it before it was known are counted now."""
        nodes = self.nodes
        known = nodes.row_of.get(node.name)
        before = None if known is None else nodes.infos[known]
        # Most updates of nodes, such as those of their status, change nothing here.
        if before == node:
            return
        row = nodes.set_node(node)
        self.happened(Event.NODE_ADD if before is None else Event.NODE_UPDATE, (row,))
        # Only the labels of a known node decide which devices it reaches.
        if before is None or before.labels != node.labels:
            self.devices.node_changed(row)
        if before is not None and before.labels != node.labels:
            self._domains_changed()
            for pod in self.node_pods.on(node.name):
                # Slices of pods without indexes are by domain.
                if pod.group is not None and pod.group.slicing is not None:
                    self.units.stale(pod)
        # Watches of pods and nodes are independent: a bound pod may come before its node.
        if known is None:
            for pod in self.node_pods.on(node.name):
                pod.row = row
                self.node_pods.take(pod.shape, row)
                self.units.stale(pod)
        elif before is not None and before.uid != node.uid:
            for pod in self.node_pods.on(node.name):
                self.units.stale(pod)  # its mirror pods belong to another node object now

    def remove_node(self, name: str) -> None:
        """Remove a node. Its pods stay known until their own objects are deleted."""
        row = self.nodes.remove_node(name)
        if row is None:
            return
        # Before the row is reused: what refers to it by number would then be about another node.
        self.volumes.assumed.forget_row(row)
        self.devices.node_changed(row)
        self._domains_changed()
        # A node of the same name may be created again while the pods still exist.
        for pod in self.node_pods.on(name):
            pod.row = -1
            self.units.stale(pod)

    def set_images(self, node: str, images: Iterable[tuple[str, int]]) -> None:
        """Set the images that a known node has: names and sizes in bytes."""
        self.nodes.images.set(self.nodes.row_of[node], images)

    def set_namespace(self, name: str, labels: Mapping[str, str]) -> None:
        """Add or update a namespace, whose labels a namespaceSelector may match."""
        if self.selectors.namespaces.get(name) == labels:
            return
        self.selectors.namespaces[name] = labels
        self._namespace_changed(name)

    def remove_namespace(self, name: str) -> None:
        """Forget a namespace's labels."""
        if self.selectors.namespaces.pop(name, None):
            self._namespace_changed(name)

    def set_group(self, spec: GroupSpec) -> None:
        group = self.forest.groups.get(spec.key)
        before = None
        if group is not None:
            if group.spec == spec:
                return
            before = group.spec
            # Touch the old tree as well: the group may be leaving it for another parent.
            self._touch(group)
        group = self.forest.set_spec(spec)
        if before is None or (before.topology, before.parent) != (spec.topology, spec.parent):
            self.pod_shapes.group_moved(group)
        self._moved(group)

    def remove_group(self, key: GroupKey) -> None:
        group = self.forest.groups.get(key)
        if group is None:
            return
        # While the group still has its parent, so that its ancestors are touched.
        self._touch(group)
        self.forest.remove_spec(key)
        self._moved(group)

    def set_start_wait(self, group: Group, wait: StartWait | None) -> None:
        """Set the wait of a root for its first start; the root is decided again if that helps."""
        before = group.given_up
        self.forest.set_start_wait(group, wait)
        if group.given_up != before:
            self._touch(group)

    def _end_start_wait(self, root: Group | None) -> None:
        """End the wait of a root that has lost its quorum by an event: later pods are new ones.

        Called for each event, because others may restore the quorum before the next refresh.
        """
        if root is not None and root.start_wait is not None and not root.quorate:
            self.set_start_wait(root, None)

    def set_templates(self, workload: WorkloadKey, templates: Templates | None) -> None:
        """Set the templates of a Workload, which its groups must match; None if it was deleted."""
        self.forest.set_templates(workload, templates)
        self._moved()

    def set_pod(self, info: PodInfo) -> Pod | None:
        """Add or update a pod. An assumed pod keeps its node until an event binds or ends it.

        Returns None, and removes the pod, if it has succeeded or failed and has no group.
        """
        # An ended pod of a group still counts: succeeded for the minimum, failed for its history.
        if info.phase in ("Succeeded", "Failed") and info.group is None:
            self.remove_pod(info.uid)
            return None
        if info.consumer is not None:
            self.devices.of_groups.update(info.consumer.claims)
        pod = self.pods.get(info.uid)
        before = None if pod is None else _decision_inputs(pod)
        root = _quorate_root(pod)
        reshaped = False
        if pod is None:
            pod = Pod(info, self.pod_shapes.shape_of(info), self._group_of(info))
            self.shapes.count(pod.shape, 1, 0)
            self.pods[info.uid] = pod
            self.pod_shapes.label_index.add(info)
            self.devices.consumers.pod_changed(info.uid)
        elif pod.info == info:
            pod.info = info  # fields that do not take part in the comparison may be newer
            return pod
        else:
            shape = self._new_shape(pod, info)
            reshaped = shape is not pod.shape
            # Subtract the pod while its old shape and state still tell where it was counted.
            self._uncount(pod)
            ended = pod.ended
            self._update(pod, info, shape)
            if pod.ended != ended:
                self.devices.consumers.pod_changed(info.uid)
        self._move(pod)
        # Most events only confirm that an assumed pod is bound; they change none of these.
        changed = before is None or before != _decision_inputs(pod) or (reshaped and pod.waiting)
        self._count(pod, reconsider=changed)
        self._end_start_wait(root)
        return pod

    def remove_pod(self, uid: str) -> None:
        pod = self.pods.get(uid)
        if pod is None:
            return
        root = _quorate_root(pod)
        self.pod_shapes.remove(pod.info)
        self._uncount(pod)
        self.node_pods.vacate(pod)
        self.devices.give_back(pod.info.device_claims, uid)
        self.shapes.count(pod.shape, -1, 0)
        if self.units.on_pod_deleted(pod):
            self.changes.victims.append(uid)
        self._touch_pod(pod, reconsider=True)
        self._end_start_wait(root)
        # Delete it last: if an earlier step raises, `discard_pod` still finds the pod.
        del self.pods[uid]
        self.devices.consumers.pod_changed(uid)
        if pod.group is not None:
            self.forest.prune(pod.group)

    def discard_pod(self, uid: str) -> None:
        """Remove a pod whose change broke off, from every table that may still contain it.

        Counts that included the pod are computed again from the remaining pods. Costs O(pods).
        """
        pod = self.pods.pop(uid, None)
        # Nothing about the pod can be trusted: the change may have stopped between any two tables.
        if pod is None:
            return
        rows = self.node_pods.recount(pod)
        self.devices.consumers.pod_changed(uid)
        self.pod_shapes.discard(uid)
        for single in (self.singles, self.held):
            if single.get(pod.key) is pod:
                del single[pod.key]
        self.shapes.recount(pod.shape, self.pods.values())
        self.replicas.recount(self.pods.values())
        self.devices.give_back(pod.info.device_claims, uid)
        pod.node, pod.row = "", -1
        self.units.on_pod_deleted(pod)
        self._touch_pod(pod, reconsider=True)
        if pod.group is not None:
            pod.group.members.pop(uid, None)
            self.forest.recount(pod.group)
            self.forest.prune(pod.group)
        self.happened(Event.POD_DELETE, rows)

    def reinstate(self, pods: Iterable[Pod]) -> None:
        """Restore these pods as they were last delivered, after a change to them broke off."""
        infos = [pod.info for pod in pods if self.pods.get(pod.info.uid) is pod]
        # Discard all before adding the first: a new pod's terms may change the others' shapes.
        for info in infos:
            self.discard_pod(info.uid)
        for info in infos:
            self.set_pod(info)

    def assume(
        self,
        pods: Iterable[Pod],
        rows: Iterable[int],
        volumes: Mapping[ClaimKey, AssumedVolume] | None = None,
        devices: Mapping[ClaimKey, Allocation] | None = None,
    ) -> None:
        """Assume each pod on the node of its row, and `volumes` for claims, before they are bound.

        For a claim that is not in `volumes`, VolumeBinding chooses a volume on the pod's node.
        `devices` are the allocations that ResourceClaims are assumed to have.
        """
        for _ in self.assume_in_steps(pods, rows, volumes, devices):
            pass

    def assume_in_steps(
        self,
        pods: Iterable[Pod],
        rows: Iterable[int],
        volumes: Mapping[ClaimKey, AssumedVolume] | None = None,
        devices: Mapping[ClaimKey, Allocation] | None = None,
    ) -> Iterator[None]:
        """Assume like `assume`, some pods at a time; nothing else may change in between."""
        # Before the pods: otherwise VolumeBinding would choose volumes for these claims itself.
        if volumes:
            self.volumes.assumed.keep(volumes)
        if devices:
            self.devices.keep(devices)
        places = list(zip(pods, rows, strict=True))
        for first in range(0, len(places), _ASSUMED):
            if first:
                yield
            self._assume(places[first : first + _ASSUMED])

    def _assume(self, places: list[tuple[Pod, int]]) -> None:
        for pod, row in places:
            self._uncount(pod)
            pod.assumed = True
            self.node_pods.put(pod, self.nodes.name_of(row), row)
            self.devices.use_by(pod.info.device_claims, pod.info.uid)
            self._count(pod)
        # Pods of a gang often share a node: account for them together.
        for (shape, row), same in groupby(places, key=lambda place: (place[0].shape, place[1])):
            self.node_pods.take(shape, row, sum(1 for _ in same))
            self.framework.plugins.volume_binding.account(shape, row, more=True)

    def forget(self, uid: str) -> None:
        """Undo `assume` for one pod: it waits again and its node is free."""
        pod = self.pods.get(uid)
        # Bound or deleted in the meantime: nothing is assumed.
        if pod is None or not pod.assumed:
            return
        self._uncount(pod)
        pod.assumed = False
        self.devices.give_back(pod.info.device_claims, uid)
        self._move(pod)
        self._count(pod, reconsider=True)

    def end_nomination(self, root: GroupKey, taken: Iterable[int] = ()) -> bool:
        """Drop the root's nomination, so that others may use its nodes. False if it had none.

        `taken` are the rows of its pods if they are placed now, one row for each pod.
        """
        nomination = self.nominations.drop(root)
        if nomination is None:
            return False
        row_of, left = self.nodes.row_of, Counter[int]()
        for _, places in nomination.places:
            left.update({row_of[name]: count for name, count in places if name in row_of})
        # Where the root's own pods take the capacity, no other pod fits when the nomination ends.
        left.subtract(taken)
        rows = (row for row, count in left.items() if count > 0)
        self.happened(Event.NOMINATION_DELETE, rows)
        return True

    def open_starvation_gate(self) -> None:
        """Open the starvation gate; the roots that it held back are reconsidered."""
        held_back = self.starvation.open()
        self.changes.entities.update(held_back)
        self.changes.reconsider.update(held_back)

    @property
    def behind(self) -> bool:
        """True if `catch_up` has work to do; nothing may be decided before."""
        return self.pod_shapes.behind

    def catch_up(self) -> Iterator[None]:
        """Give pods the shapes for new or removed terms, and sort devices, in short steps."""
        yield from self.pod_shapes.catch_up()
        yield from self.devices.catch_up()

    @property
    def changed(self) -> bool:
        """True if anything changed since the last call of `take_changes`."""
        return bool(self.changes or self.pod_shapes.affects_others or self.devices.gaining)

    def take_changes(self) -> StateChanges:
        """Return the changes since the last call. Free shapes and match counts that no pod uses."""
        # Sweep first: the shapes and match counts that it ends may set `affects_others`.
        self.pod_shapes.sweep(self.nominations)
        self.devices.tidy()
        more = self.forest.catch_up(_STEPS)
        # Links that postponed steps created have touched nothing yet.
        if self.forest.moved:
            self._moved()
        if self.devices.gaining:
            self.happened(Event.DEVICES, self.devices.take_gaining())
        if self.pod_shapes.affects_others:
            self.happened(Event.TERMS)
            self.pod_shapes.affects_others = False
        changes = self.changes.take()
        changes.more = more
        if changes.anywhere:
            changes.rows.update(self.nodes.row_of.values())
        return changes

    def happened(self, event: Event, rows: Iterable[int] = ()) -> None:
        """Record an event on nodes of these rows: refused pods may fit where plugins state it."""
        self.changes.note(self.framework.reach[event], rows)

    def reconsider(self, uid: str) -> None:
        """Reconsider a waiting pod, because something that its decision depends on changed."""
        pod = self.pods.get(uid)
        if pod is not None and pod.waiting:
            self._touch_pod(pod, reconsider=True)

    def reconsider_all(self) -> None:
        """Reconsider all groups, and all waiting pods without a group. Held pods are touched."""
        self.changes.everything = True
        for group in self.forest.groups.values():
            self._touch(group)
        # The API server states why the many with scheduling gates wait.
        held = (key for key, pod in self.held.items() if pod.hold != "gate")
        self.changes.entities.update(self.singles, held)
        self.changes.reconsider.update(self.singles)

    def pods_on(self, node: str) -> list[Pod]:
        """Return the pods that are bound to this node or assumed there."""
        return self.node_pods.on(node)

    def entity(self, pod: Pod) -> GroupKey:
        """Return the key of the pod's queue entry: the topmost group of its tree, or the pod."""
        return pod.top.key

    def _lives(self, uid: str) -> bool:
        """Return True if the pod exists and has not ended."""
        pod = self.pods.get(uid)
        return pod is not None and not pod.ended

    def _domains_changed(self) -> None:
        """Record that domains changed: pods with terms about other pods may fit elsewhere."""
        # Without match counts no term is about other pods.
        if len(self.selectors) > 0:
            self.happened(Event.DOMAINS)

    def _namespace_changed(self, name: str) -> None:
        if self.selectors.by_namespace:
            self.pod_shapes.relabel_namespace(name)

    def _group_of(self, info: PodInfo) -> Group | None:
        if info.group is None:
            return None
        # Objects arrive in any order: this creates a group without a spec until its object arrives.
        return self.forest.group((info.group_kind, info.namespace, info.group))

    def _known_group_of(self, info: PodInfo) -> Group | None:
        if info.group is None:
            return None
        return self.forest.groups.get((info.group_kind, info.namespace, info.group))

    def _new_shape(self, pod: Pod, info: PodInfo) -> Shape:
        old = pod.info
        # Tuples compare the same objects as equal without their contents: usually cheap.
        before = (old.requirements, old.terminating, old.labels, old.group_affinity)
        same = before == (info.requirements, info.terminating, info.labels, info.group_affinity)
        return pod.shape if same else self.pod_shapes.shape_of(info)

    def _update(self, pod: Pod, info: PodInfo, shape: Shape) -> None:
        if shape is not pod.shape:
            # `vacate` clears the node; an assumed pod goes back to it with the new shape.
            node = pod.node if pod.assumed and not info.node else ""
            self.node_pods.vacate(pod)
            self._set_shape(pod, shape)
            if node:
                self.node_pods.occupy(pod, node)
        # The index finds the pod by its old labels.
        old, pod.info = pod.info, info
        if old.labels != info.labels:
            self.pod_shapes.label_index.remove(old)
            self.pod_shapes.label_index.add(info)
        # The watch confirms the Binding, so the node is a fact.
        if info.node:
            pod.assumed = False

    def _move(self, pod: Pod) -> None:
        """Count the pod on its current node: the one it is bound to, else the assumed one."""
        target = pod.info.node or (pod.node if pod.assumed else "")
        # An ended pod uses nothing. The kubelet has released its resources.
        if pod.ended:
            target = ""
        if target != pod.node:
            self.node_pods.vacate(pod)
            if target:
                self.node_pods.occupy(pod, target)

    def _set_shape(self, pod: Pod, shape: Shape) -> None:
        """Replace the shape of a pod that is currently not counted anywhere."""
        self.shapes.count(pod.shape, -1, 0)
        pod.shape = shape
        self.shapes.count(shape, 1, 0)

    def _change_shape(self, pod: Pod, shape: Shape) -> None:
        self._uncount(pod)
        if pod.row >= 0:
            # In this order its claims always have a user, so no assumed volume is dropped.
            self.node_pods.take(shape, pod.row)
            self.node_pods.take(pod.shape, pod.row, -1)
        self._set_shape(pod, shape)
        # A root that was refused with the old shape must be reconsidered with the new one.
        self._count(pod, reconsider=pod.waiting)

    def _count(self, pod: Pod, *, reconsider: bool = False) -> None:
        self.units.stale(pod)
        self.replicas.add(pod)
        waiting = pod.waiting
        self.shapes.count(pod.shape, 0, waiting)
        if pod.group is not None:
            self.forest.count(pod.group, pod, 1)
        elif waiting:
            self.singles[pod.key] = pod
        elif pod.hold is not None:
            self.held[pod.key] = pod
        if pod.info.nominated and not pod.info.ours:
            self._nominate(pod)
        self._touch_pod(pod, reconsider=reconsider)

    def _nominate(self, pod: Pod) -> None:
        """Reserve the node that another scheduler nominated for its waiting pod."""
        info = pod.info
        # A pod that will not be scheduled reserves nothing.
        if not (pod.placed or pod.ended or info.terminating or info.gated):
            places = ((pod.shape, ((info.nominated, 1),)),)
            self.nominations.set(Nomination(pod.key, info.priority, places, foreign=True))

    def _uncount(self, pod: Pod) -> None:
        self.replicas.add(pod, -1)
        self.shapes.count(pod.shape, 0, -pod.waiting)
        if pod.group is not None:
            self.forest.count(pod.group, pod, -1)
        else:
            self.singles.pop(pod.key, None)
            self.held.pop(pod.key, None)
        if pod.info.nominated and not pod.info.ours:
            self.end_nomination(pod.key)

    def _touch_pod(self, pod: Pod, *, reconsider: bool = False) -> None:
        if pod.group is not None:
            self._touch(pod.group, reconsider=reconsider)
        elif pod.info.ours:
            key = self.entity(pod)
            self.changes.entities.add(key)
            self.changes.singles[key] = pod
            if reconsider:
                self.changes.reconsider.add(key)

    def _moved(self, *groups: Group) -> None:
        """Update what depends on groups that changed, or that were linked or compared again."""
        linked = self.forest.take_moved()
        for group in linked:
            self.pod_shapes.group_moved(group)
        for group in (*groups, *linked):
            self.units.stale_tree(group)
            self._touch(group)

    def _touch(self, group: Group, *, reconsider: bool = True) -> None:
        """Record that the group and its ancestors changed; only the topmost can be decided."""
        changes, node = self.changes, group
        changes.entities.add(node.key)
        while node.parent is not None:
            node = node.parent
            changes.entities.add(node.key)
        if reconsider:
            changes.reconsider.add(group.key)
            changes.reconsider.add(node.key)


def _quorate_root(pod: Pod | None) -> Group | None:
    """Return the topmost group above a pod, if it has its quorum."""
    root = pod.group.top if pod is not None and pod.group is not None else None
    return root if root is not None and root.quorate else None


def _decision_inputs(pod: Pod) -> tuple[bool, bool, int]:
    """Return the parts of a pod, except its shape, that its root's decision depends on."""
    return (pod.waiting, pod.running, pod.info.priority)
