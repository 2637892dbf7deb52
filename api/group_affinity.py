"""Required pod affinity that says what a topology constraint says, to those who know no groups.

Autoscalers simulate kube-scheduler: they buy the nodes of a gang in one zone only if its pods have
an affinity among themselves by the zone's key. Admission writes such terms, and the scheduler knows
them again: they are derived from the pod's own labels, here for both.

A term selects the pods of one group: a PodGroup, the composite of a replicatedJob, or that of a
JobSet. The UID of the Job or JobSet, which no template knows, comes with `matchLabelKeys`, so that
pods of an earlier one of the same name do not count. API servers before 1.31 drop that field.
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


class Scope(IntEnum):
    """Whose pods a term selects; the value is how many levels above a pod's PodGroup that is."""

    POD_GROUP = 0
    REPLICATED_JOB = 1
    JOBSET = 2


# A composite has no label of its own: its pods are those of the JobSet that name any group.
_NAMES: Final = {
    Scope.POD_GROUP: (LABEL_POD_GROUP,),
    Scope.REPLICATED_JOB: (JOBSET_LABEL_NAME, JOBSET_LABEL_REPLICATED_JOB),
    Scope.JOBSET: (JOBSET_LABEL_NAME,),
}
OWN_UIDS: Final = frozenset({JOB_LABEL_UID, JOBSET_LABEL_UID})
"""The labels that may come with `matchLabelKeys`."""

OWN_LABELS: Final = (
    LABEL_POD_GROUP,
    JOBSET_LABEL_NAME,
    JOBSET_LABEL_REPLICATED_JOB,
    JOBSET_LABEL_UID,
    JOB_LABEL_UID,
)
"""The labels of a pod that its terms are derived from."""


def term(scope: Scope, key: str, labels: Mapping[str, Any], *, of_jobset: bool) -> dict[str, Any]:
    """The term for pods with these labels; `key` is the topology key.

    Raises KeyError where a label that the scope needs is not among them.
    """
    selector: dict[str, Any] = {"matchLabels": {name: labels[name] for name in _NAMES[scope]}}
    if scope is not Scope.POD_GROUP:
        selector["matchExpressions"] = [{"key": LABEL_POD_GROUP, "operator": "Exists"}]
    uid = JOBSET_LABEL_UID if of_jobset else JOB_LABEL_UID
    return {"topologyKey": key, "labelSelector": selector, "matchLabelKeys": [uid]}


def scope_of(rules: Collection[Rule], labels: Mapping[str, str]) -> Scope | None:
    """Whose pods a selector with these rules selects, in the words of a pod with these labels.

    The rules are those after `matchLabelKeys` were merged. None for any other selector: such a term
    says something else. Only rules about the pod's own labels are known, so the pod itself is among
    those that are selected.
    """
    without = {rule for rule in rules if rule not in {_is(uid, labels) for uid in OWN_UIDS}}
    for scope in Scope:
        if without == _rules(scope, labels):
            return scope
    return None


def is_generated(written: Any) -> bool:
    """Whether a term, as it is written in a pod template, has the form that admission gives it."""
    if not isinstance(written, Mapping) or written.keys() != _FIELDS:
        return False
    selector, uids = written["labelSelector"], written["matchLabelKeys"]
    if not isinstance(selector, Mapping) or uids not in [[uid] for uid in OWN_UIDS]:
        return False
    named = selector.get("matchLabels")
    if not isinstance(named, Mapping):
        return False
    if "matchExpressions" not in selector:
        return set(named) == set(_NAMES[Scope.POD_GROUP])
    above = (set(_NAMES[Scope.REPLICATED_JOB]), set(_NAMES[Scope.JOBSET]))
    return selector["matchExpressions"] == [_ANY_GROUP] and set(named) in above


_FIELDS: Final = {"topologyKey", "labelSelector", "matchLabelKeys"}
_ANY_GROUP: Final = {"key": LABEL_POD_GROUP, "operator": "Exists"}


def _rules(scope: Scope, labels: Mapping[str, str]) -> set[Rule]:
    named = {_is(name, labels) for name in _NAMES[scope]}
    return named if scope is Scope.POD_GROUP else {*named, (LABEL_POD_GROUP, "Exists", ())}


def _is(name: str, labels: Mapping[str, str]) -> Rule:
    """A pod without the label has no value for it, and no selector has this rule then."""
    return (name, "In", (labels[name],) if name in labels else ())
