"""Terms of a pod about other pods: affinity, anti-affinity, topology spread.

`matchLabelKeys` are merged into the selector here. Real API servers have already merged them; a
second merge changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Final

import msgspec

from api.constants import ANNOTATION_GROUP_BY, LABEL_POD_GROUP
from api.group_affinity import OWN_LABELS, OWN_UIDS, scope_of
from scheduler.core.values.model import (
    Expression,
    GroupTerm,
    PodSelector,
    PodTerm,
    Spread,
    WeightedPodTerm,
)
from scheduler.decoding.label_selectors import label_expressions
from scheduler.decoding.objects import Pod, PodAffinityTerm, SpreadConstraint

_LONGEST: Final = 2048
"""Bytes of a term about the pod's own group. A longer one counts as a term about any pods;
admission writes far shorter ones."""

_encode: Final = msgspec.msgpack.Encoder().encode
_decode: Final = msgspec.msgpack.Decoder(PodAffinityTerm).decode


def required_affinity(pod: Pod) -> tuple[tuple[PodTerm, ...], tuple[GroupTerm, ...]]:
    """Return required pod affinity, and apart from it the terms about the pod's own group.

    All pods of a gang have the same terms of that kind, which are cached.
    """
    affinity = pod.spec.affinity
    if affinity is None or affinity.pod_affinity is None:
        return (), ()
    terms = affinity.pod_affinity.required
    # Kept apart: a topology constraint that requires the same makes these terms redundant.
    found = [_own(pod, term) or _term(pod, term) for term in terms]
    return (
        tuple(each for each in found if isinstance(each, PodTerm)),
        tuple(each for each in found if isinstance(each, GroupTerm)),
    )


def required_anti_affinity(pod: Pod) -> tuple[PodTerm, ...]:
    """Return required pod anti-affinity."""
    affinity = pod.spec.affinity
    if affinity is None or affinity.pod_anti_affinity is None:
        return ()
    return tuple(_term(pod, term) for term in affinity.pod_anti_affinity.required)


def spread(pod: Pod) -> tuple[Spread, ...]:
    """Return topology spread constraints with DoNotSchedule."""
    return tuple(_spreads(pod, "DoNotSchedule"))


def preferred_affinity(pod: Pod) -> tuple[WeightedPodTerm, ...]:
    """Return preferred pod affinity, and preferred anti-affinity with negative weights."""
    affinity = pod.spec.affinity
    if affinity is None:
        return ()
    signed = ((affinity.pod_affinity, 1), (affinity.pod_anti_affinity, -1))
    return tuple(
        WeightedPodTerm(sign * soft.weight, _term(pod, soft.pod_affinity_term))
        for half, sign in signed
        for soft in (half.preferred if half else ())
    )


def preferred_spread(pod: Pod) -> tuple[Spread, ...]:
    """Return topology spread constraints with ScheduleAnyway."""
    return tuple(_spreads(pod, "ScheduleAnyway"))


def _own(pod: Pod, term: PodAffinityTerm) -> GroupTerm | None:
    """Return the term as one about the pod's own group, None if it is not."""
    labels = pod.metadata.labels
    # A pod without this label names its group in another way. With group-by, several groups share
    # the value of the label, so the term is about all of them.
    if LABEL_POD_GROUP not in labels or ANNOTATION_GROUP_BY in pod.metadata.annotations:
        return None
    if not OWN_UIDS.issuperset(term.match_label_keys):
        return None
    if term.namespaces or term.namespace_selector is not None or term.mismatch_label_keys:
        return None
    # The encoded term is the key of the cache: msgspec structs of lists cannot be hashed.
    written = _encode(term)
    if len(written) > _LONGEST:
        return None
    own = tuple((name, labels[name]) for name in OWN_LABELS if name in labels)
    return _group_term(written, pod.metadata.namespace, own)


@lru_cache(maxsize=1024)
def _group_term(
    written: bytes, namespace: str, own: tuple[tuple[str, str], ...]
) -> GroupTerm | None:
    """Return the term from its encoded form and the labels of the pod that it depends on."""
    term, labels = _decode(written), dict(own)
    added = _match_labels(labels, term.match_label_keys, "In")
    rules = label_expressions(term.label_selector, added)
    scope = scope_of([(e.key, e.operator, e.values) for e in rules or ()], labels)
    if scope is None:
        return None
    return GroupTerm(PodTerm(PodSelector(rules, (namespace,)), term.topology_key), int(scope))


def _spreads(pod: Pod, when_unsatisfiable: str) -> Iterator[Spread]:
    for constraint in pod.spec.topology_spread_constraints:
        if constraint.when_unsatisfiable == when_unsatisfiable:
            yield _spread(pod, constraint)


def _term(pod: Pod, term: PodAffinityTerm) -> PodTerm:
    # As upstream: a term with neither namespaces nor a selector of them means the pod's own.
    own = not term.namespaces and term.namespace_selector is None
    namespaces = (pod.metadata.namespace,) if own else tuple(sorted(term.namespaces))
    added = (
        *_match_labels(pod.metadata.labels, term.match_label_keys, "In"),
        *_match_labels(pod.metadata.labels, term.mismatch_label_keys, "NotIn"),
    )
    selector = PodSelector(
        label_expressions(term.label_selector, added),
        namespaces,
        label_expressions(term.namespace_selector),
    )
    return PodTerm(selector, term.topology_key)


def _spread(pod: Pod, constraint: SpreadConstraint) -> Spread:
    added = _match_labels(pod.metadata.labels, constraint.match_label_keys, "In")
    # An empty selector counts no pods, unlike one of an affinity term: upstream's
    # countPodsMatchSelector leaves it out.
    selected = label_expressions(constraint.label_selector, added) or None
    return Spread(
        PodSelector(selected, (pod.metadata.namespace,)),
        constraint.topology_key,
        constraint.max_skew,
        constraint.min_domains or 1,
        # The API's defaults differ: Honor for affinity, Ignore for taints.
        honours_affinity=constraint.node_affinity_policy != "Ignore",
        honours_taints=constraint.node_taints_policy == "Honor",
    )


def _match_labels(
    labels: Mapping[str, str], keys: Iterable[str], operator: str
) -> tuple[Expression, ...]:
    """Return an expression for each of the keys that the pod has as a label, with its value."""
    return tuple(Expression(key, operator, (labels[key],)) for key in keys if key in labels)
