"""Kinds that are questions: created, answered, and never kept."""

from collections.abc import Callable

from localcluster import resources
from localcluster.hooks import Object, User
from localcluster.store import CollectionId


def _self_subject(body: Object, user: User) -> Object:
    return {**body, "status": {"userInfo": user.to_json()}}


def _access(body: Object, user: User) -> Object:
    allowed = "system:masters" in user.groups
    return {**body, "status": {"allowed": allowed, "reason": ""}}


def _rules(body: Object, user: User) -> Object:
    everything = {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}
    rules = [everything] if "system:masters" in user.groups else []
    urls = [{"verbs": ["*"], "nonResourceURLs": ["*"]}] if rules else []
    status = {"resourceRules": rules, "nonResourceRules": urls, "incomplete": False}
    return {**body, "status": status}


REVIEWS: dict[CollectionId, Callable[[Object, User], Object]] = {
    resources.SELF_SUBJECT_REVIEWS.collection: _self_subject,
    resources.SELF_SUBJECT_ACCESS_REVIEWS.collection: _access,
    resources.SELF_SUBJECT_RULES_REVIEWS.collection: _rules,
}
