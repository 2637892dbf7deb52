"""LeaderWorkerSets as a kind that requests groups (`api.integration.kinds`)."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from api.constants import LEADER_WORKER_SET, POD
from api.features import Feature, FeatureUse
from api.integration.common.options import COMPOSITE, annotation_path
from api.integration.common.owner_kind import (
    AnnotationHolder,
    OwnerKind,
    Review,
    mode_uses,
    topology_uses,
    tree_uses,
)
from api.integration.common.result import Admission
from api.integration.lws.admission import lws_admission
from api.integration.lws.rules import overwritten
from api.integration.lws.view import ANNOTATION_EXCLUSIVE, read_lws
from api.reading import dig
from api.scheduler_names import SchedulerNames


class LeaderWorkerSets(OwnerKind):
    """LeaderWorkerSets."""

    kind = LEADER_WORKER_SET

    def admit(self, obj: Mapping[str, Any], review: Review) -> Admission:
        return lws_admission(obj, review)

    def pod_specs(self, obj: Mapping[str, Any]) -> Iterable[tuple[str, Mapping[str, Any]]]:
        view = read_lws(obj)
        return [(f"{it.path}.spec", it.spec) for it in view.templates] if view.options.asks else []

    def uses(self, obj: Mapping[str, Any], schedulers: SchedulerNames) -> Iterator[FeatureUse]:
        """Yield the set's own feature, trees if it has them, and topology."""
        view = read_lws(obj)
        if not view.options.asks:
            return
        yield from mode_uses(Feature.LEADER_WORKER_SET, view.options)
        if view.options.mode == COMPOSITE or view.leader_first:
            yield FeatureUse(Feature.COMPOSITE_POD_GROUP, view.options.mode_path)
        yield from tree_uses(view.options)
        yield from topology_uses([view.options])
        if view.exclusive and not view.options.topology:
            yield FeatureUse(Feature.TOPOLOGY, annotation_path("", ANNOTATION_EXCLUSIVE))

    def templates(self, obj: Mapping[str, Any]) -> Iterator[AnnotationHolder]:
        for name in ("leaderTemplate", "workerTemplate"):
            path = f"spec.leaderWorkerTemplate.{name}."
            yield AnnotationHolder(path, POD, dig(obj, "spec", "leaderWorkerTemplate", name))

    def not_annotated(self, obj: Mapping[str, Any]) -> str:
        view = read_lws(obj)
        return view.options.mode_path if view.options.asks and not view.is_annotated else ""

    def mutation_warnings(
        self, obj: Mapping[str, Any], admission: Admission, review: Review
    ) -> Iterable[str]:
        """Return warnings about labels that the patch overwrites: validation cannot see them."""
        return overwritten(read_lws(obj)) if admission.patch else ()
