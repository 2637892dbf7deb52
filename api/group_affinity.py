"""Required pod affinity that expresses a topology constraint to components without groups.

Autoscalers simulate kube-scheduler: they add the nodes of a gang in one zone only if its pods have
an affinity to each other by the zone's key. Admission writes such terms, and the scheduler
recognizes them. Both derive them here from the pod's own labels.

A term selects the pods of one group: a PodGroup, or the CompositePodGroup of a replicatedJob or
JobSet. The UID of the Job or JobSet, which no template has, comes from `matchLabelKeys`, so that
pods of an earlier owner of the same name do not count. API servers before 1.31 drop that field.
"""

from collections.abc import Collection, Mapping
from enum import IntEnum
from typing import Any, Final

from api.constants import (
    JOB_LABEL_UID,
    JOBSET_LABEL_NAME,
    JOBSET_LABEL_REPLICATED_JOB,
    JOBSET_LABEL_UID,
    LABEL_POD_GROUP,
)

REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"

Rule = tuple[str, str, tuple[str, ...]]
"""Label key, operator and values of one requirement of a selector."""


class AffinityScope(IntEnum):
    """The group that a term selects; the value is its number of levels above a pod's PodGroup."""

    POD_GROUP = 0
    REPLICATED_JOB = 1
    JOBSET = 2


# A CompositePodGroup has no label of its own: its pods are those of the JobSet that name any group.
_NAMES: Final = {
    AffinityScope.POD_GROUP: (LABEL_POD_GROUP,),
    AffinityScope.REPLICATED_JOB: (JOBSET_LABEL_NAME, JOBSET_LABEL_REPLICATED_JOB),
    AffinityScope.JOBSET: (JOBSET_LABEL_NAME,),
}
OWN_UIDS: Final = frozenset({JOB_LABEL_UID, JOBSET_LABEL_UID})
"""The labels that may be in `matchLabelKeys`."""

OWN_LABELS: Final = (
    LABEL_POD_GROUP,
    JOBSET_LABEL_NAME,
    JOBSET_LABEL_REPLICATED_JOB,
    JOBSET_LABEL_UID,
    JOB_LABEL_UID,
)
"""The labels of a pod from which its terms are derived."""


def term(
    scope: AffinityScope, key: str, labels: Mapping[str, Any], *, of_jobset: bool
) -> dict[str, Any]:
    """Return the term for pods with these labels; `key` is the topology key.

    Raises KeyError if a label that the scope needs is missing.
    """
    selector: dict[str, Any] = {"matchLabels": {name: labels[name] for name in _NAMES[scope]}}
    # Pods outside any group have the JobSet's labels, too.
    if scope is not AffinityScope.POD_GROUP:
        selector["matchExpressions"] = [{"key": LABEL_POD_GROUP, "operator": "Exists"}]
    uid = JOBSET_LABEL_UID if of_jobset else JOB_LABEL_UID
    return {"topologyKey": key, "labelSelector": selector, "matchLabelKeys": [uid]}


def scope_of(rules: Collection[Rule], labels: Mapping[str, str]) -> AffinityScope | None:
    """Return the scope that a selector with these rules has for a pod with these labels.

    The rules are those after the merge of `matchLabelKeys`. The result is None for any other
    selector. Only rules about the pod's own labels are known, so the selector always selects the
    pod itself.
    """
    without = {rule for rule in rules if rule not in {_is(uid, labels) for uid in OWN_UIDS}}
    for scope in AffinityScope:
        if without == _rules(scope, labels):
            return scope
    return None


def is_generated(written: Any) -> bool:
    """Return True if a term of a pod template has the form that admission gives it."""
    if not isinstance(written, Mapping) or written.keys() != _FIELDS:
        return False
    selector, uids = written["labelSelector"], written["matchLabelKeys"]
    if not isinstance(selector, Mapping) or uids not in [[uid] for uid in OWN_UIDS]:
        return False
    named = selector.get("matchLabels")
    if not isinstance(named, Mapping):
        return False
    if "matchExpressions" not in selector:
        return set(named) == set(_NAMES[AffinityScope.POD_GROUP])
    above = (set(_NAMES[AffinityScope.REPLICATED_JOB]), set(_NAMES[AffinityScope.JOBSET]))
    return selector["matchExpressions"] == [_ANY_GROUP] and set(named) in above


_FIELDS: Final = {"topologyKey", "labelSelector", "matchLabelKeys"}
_ANY_GROUP: Final = {"key": LABEL_POD_GROUP, "operator": "Exists"}


def _rules(scope: AffinityScope, labels: Mapping[str, str]) -> set[Rule]:
    named = {_is(name, labels) for name in _NAMES[scope]}
    return named if scope is AffinityScope.POD_GROUP else {*named, (LABEL_POD_GROUP, "Exists", ())}


def _is(name: str, labels: Mapping[str, str]) -> Rule:
    """Return the rule for the pod's own value of a label."""
    # Without the label the rule has no values, which no selector has.
    return (name, "In", (labels[name],) if name in labels else ())
