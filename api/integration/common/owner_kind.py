"""The interface of a kind that requests groups, with defaults.

Admission, `muster simulate` and the checks for unread keys know only the registry of kinds
(`api.integration.kinds`). To add a kind, write its class in a folder of its own and add one line to
the registry. A kind whose pods are all in one PodGroup derives from
`api.integration.single_group.kind.SingleGroupKind`, which needs little more than the paths of its
pod templates.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, ClassVar, NamedTuple

from api.constants import (
    ANNOTATION_PREFERRED_TOPOLOGY,
    ANNOTATION_TOPOLOGY,
    ANNOTATION_TREE,
    KindName,
)
from api.features import Feature, FeatureUse
from api.integration.common.autoscalers import SILENT, Autoscalers
from api.integration.common.native import MUSTER_ONLY, NativeApi
from api.integration.common.options import BASIC, Options
from api.integration.common.result import Admission, Taken, no_name_taken
from api.integration.common.workloads import NO_WORKLOADS, Workloads
from api.scheduler_names import USUAL, SchedulerNames

Json = Mapping[str, Any]
"""Raw JSON of any structure: a webhook reads an object before its schema is checked."""


class Review(NamedTuple):
    """The inputs of an admission decision in addition to the new object.

    `old` is the object before an UPDATE. `uid` and `namespace` are the request's: a new object may
    have no name yet, and may leave its namespace to the URL. With `expects`, groups may expect pods
    that are created later. `autoscalers` has the settings for autoscalers in pods, and `native` the
    one for Kubernetes' own groups.
    """

    operation: str
    old: Json | None = None
    uid: str = ""
    namespace: str = ""
    taken: Taken = no_name_taken
    schedulers: SchedulerNames = USUAL
    expects: bool = False
    workloads: Workloads = NO_WORKLOADS
    autoscalers: Autoscalers = SILENT
    native: NativeApi = MUSTER_ONLY


class AnnotationHolder(NamedTuple):
    """An object or a template that may have annotations: its path, and the kind to read it as."""

    path: str
    kind: KindName
    found: Any


class OwnerKind(ABC):
    """A kind of objects whose pods get groups."""

    kind: ClassVar[KindName]
    created_by: ClassVar[tuple[KindName, ...]] = ()
    """Kinds that create such objects for users who know only the creator.

    They report its wait, too.
    """

    @abstractmethod
    def admit(self, obj: Json, review: Review) -> Admission:
        """Return the patch for the object, the causes to reject it, and warnings."""

    @abstractmethod
    def pod_specs(self, obj: Json) -> Iterable[tuple[str, Json]]:
        """Return path and spec of each pod template whose pods get a group."""

    @abstractmethod
    def uses(self, obj: Json, schedulers: SchedulerNames) -> Iterator[FeatureUse]:
        """Yield the features that the object uses, if the use has an effect."""

    @abstractmethod
    def templates(self, obj: Json) -> Iterator[AnnotationHolder]:
        """Yield the templates in the object."""

    def mutation_warnings(self, obj: Json, admission: Admission, review: Review) -> Iterable[str]:
        """Return warnings about values that the patch overwrites: validation cannot see them."""
        return ()

    def not_annotated(self, obj: Json) -> str:
        """Return the path of the mode if the templates lack their groups, else nothing."""
        return ""

    def reports_unread_keys(self, obj: Json) -> bool:
        """Return True if the user of this object gets warnings about unread keys in it."""
        return True


def mode_uses(feature: Feature, options: Options) -> Iterator[FeatureUse]:
    """Yield the feature that creates groups of this mode, and gangs unless it is Basic."""
    yield FeatureUse(feature, options.mode_path)
    if options.mode != BASIC:
        yield FeatureUse(Feature.GANG, options.mode_path)


def tree_uses(options: Options) -> Iterator[FeatureUse]:
    """Yield the use of trees by an owner that is in one."""
    if options.tree is not None:
        yield FeatureUse(Feature.COMPOSITE_POD_GROUP, options.at(ANNOTATION_TREE))


def topology_uses(levels: Iterable[Options]) -> Iterator[FeatureUse]:
    """Yield the use of topology at each level that requests it."""
    for options in levels:
        if options.topology:
            key = ANNOTATION_PREFERRED_TOPOLOGY if options.preferred else ANNOTATION_TOPOLOGY
            yield FeatureUse(Feature.TOPOLOGY, options.at(key))
