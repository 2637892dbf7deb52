"""Review kinds: created, evaluated, and never stored."""

from localcluster.base import resources
from localcluster.base.auth import Tokens
from localcluster.base.hooks import Object, User
from localcluster.base.resources import ResourceInfo
from localcluster.rbac.attributes import Attributes
from localcluster.rbac.authorizer import Authorizer

_WHO = resources.SELF_SUBJECT_REVIEWS.collection
_TOKEN = resources.TOKEN_REVIEWS.collection
_RULES = resources.SELF_SUBJECT_RULES_REVIEWS.collection
_MINE = resources.SELF_SUBJECT_ACCESS_REVIEWS.collection
_ANYBODYS = resources.SUBJECT_ACCESS_REVIEWS.collection
QUESTIONS = frozenset({_WHO, _TOKEN, _RULES, _MINE, _ANYBODYS})


def answer(
    info: ResourceInfo, body: Object, user: User, tokens: Tokens, authorizer: Authorizer
) -> Object:
    """Return the body with its status."""
    collection, spec = info.collection, body.get("spec") or {}
    body.setdefault("metadata", {})
    if collection == _WHO:
        status: Object = {"userInfo": user.to_json()}
    elif collection == _TOKEN:
        status = _token_status(spec, tokens)
    elif collection == _RULES:
        status = _rules_status(authorizer.rules(user, spec.get("namespace") or ""))
    else:
        subject = user if collection == _MINE else _subject(spec)
        decision = authorizer.decide(subject, _attributes(spec))
        status = {"allowed": decision.allowed}
        if decision.reason:
            status["reason"] = decision.reason
    return {**body, "status": status}


def _token_status(spec: Object, tokens: Tokens) -> Object:
    user = tokens.find(spec.get("token", ""))
    if user is None:
        return {"user": {}, "error": "invalid bearer token"}
    return {"authenticated": True, "user": user.to_json()}


def _rules_status(rules: list[Object]) -> Object:
    about_resources = [rule for rule in rules if not rule.get("nonResourceURLs")]
    about_urls = [rule for rule in rules if rule.get("nonResourceURLs")]
    return {"resourceRules": about_resources, "nonResourceRules": about_urls, "incomplete": False}


def _subject(spec: Object) -> User:
    return User(spec.get("user") or "", tuple(spec.get("groups") or ()))


def _attributes(spec: Object) -> Attributes:
    about = spec.get("resourceAttributes")
    if about is None:
        url = spec.get("nonResourceAttributes") or {}
        return Attributes(url.get("verb") or "", path=url.get("path") or "/")
    fields = ("verb", "group", "version", "resource", "subresource", "namespace", "name")
    return Attributes(**{field: about.get(field) or "" for field in fields})
