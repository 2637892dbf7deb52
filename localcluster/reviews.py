"""Kinds that are questions: created, answered, and never kept."""

from localcluster import resources
from localcluster.auth import Tokens
from localcluster.hooks import Object, User
from localcluster.resources import ResourceInfo

_WHO = resources.SELF_SUBJECT_REVIEWS.collection
_TOKEN = resources.TOKEN_REVIEWS.collection
_RULES = resources.SELF_SUBJECT_RULES_REVIEWS.collection
_ACCESS = (
    resources.SUBJECT_ACCESS_REVIEWS.collection,
    resources.SELF_SUBJECT_ACCESS_REVIEWS.collection,
)
QUESTIONS = frozenset({_WHO, _TOKEN, _RULES, *_ACCESS})


def answer(info: ResourceInfo, body: Object, user: User, tokens: Tokens) -> Object:
    """The body with its status. Everyone who is known may do everything."""
    collection = info.collection
    body.setdefault("metadata", {})
    if collection == _WHO:
        return {**body, "status": {"userInfo": user.to_json()}}
    if collection == _TOKEN:
        return {**body, "status": _token_status(body, tokens)}
    if collection == _RULES:
        rules = [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}]
        urls = [{"verbs": ["*"], "nonResourceURLs": ["*"]}]
        status: Object = {"resourceRules": rules, "nonResourceRules": urls, "incomplete": False}
        return {**body, "status": status}
    return {**body, "status": {"allowed": True}}


def _token_status(body: Object, tokens: Tokens) -> Object:
    user = tokens.find((body.get("spec") or {}).get("token", ""))
    if user is None:
        return {"user": {}, "error": "invalid bearer token"}
    return {"authenticated": True, "user": user.to_json()}
