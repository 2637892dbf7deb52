"""Selection of the webhooks for a request: rules, selectors and match conditions."""

from dataclasses import dataclass
from typing import Any

from localcluster.admission.conversion import Converter
from localcluster.admission.review import in_version, request_body
from localcluster.base import resources, selectors
from localcluster.base.errors import StatusError, forbidden, not_found
from localcluster.base.hooks import AdmissionRequest
from localcluster.base.resources import Registry, ResourceInfo
from localcluster.base.store import Store
from localcluster.schemas import cel
from localcluster.schemas.webhook_rules import CONDITION_VARIABLES

Object = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Hook:
    """One webhook of a stored configuration, with its selectors and conditions parsed."""

    spec: Object
    name: str
    uid: str
    namespaces: selectors.LabelSelector
    objects: selectors.LabelSelector
    conditions: tuple[cel.Expression, ...]
    plurals: frozenset[str]
    """The resources that its rules name, possibly `*`.

    Most writes are of other resources, so this set rejects them first.
    """

    @property
    def fails_open(self) -> bool:
        """True if a request passes when the webhook cannot be called."""
        return bool(self.spec["failurePolicy"] == "Ignore")


def read_hook(spec: Object, configuration: str, index: int) -> Hook:
    """Parse a stored webhook."""
    return Hook(
        spec=spec,
        name=spec["name"],
        uid=f"{configuration}/{spec['name']}/{index}",
        namespaces=selectors.from_object(spec.get("namespaceSelector") or {}),
        objects=selectors.from_object(spec.get("objectSelector") or {}),
        conditions=tuple(
            cel.compile_condition(one["expression"].strip(), CONDITION_VARIABLES)
            for one in spec.get("matchConditions") or ()
        ),
        plurals=frozenset(
            name.partition("/")[0] for rule in spec.get("rules") or () for name in rule["resources"]
        ),
    )


class Matcher:
    """Decides whether a webhook is called for a request, and in which version of the object."""

    def __init__(self, store: Store, registry: Registry, converter: Converter) -> None:
        """Read namespaces from `store` and equivalent versions from `registry`."""
        self._store = store
        self._converter = converter
        self._registry = registry

    async def match(self, hook: Hook, request: AdmissionRequest) -> ResourceInfo | None:
        """Return the version to send, or None. Raises StatusError if matching fails closed."""
        if hook.plurals.isdisjoint(("*", request.info.plural)):
            return None
        if not _selects_object(hook, request):
            return None
        info = self._rule_match(hook, request)
        if info is None or not self._selects_namespace(hook, request):
            return None
        return info if await self._conditions_hold(hook, request, info) else None

    def _rule_match(self, hook: Hook, request: AdmissionRequest) -> ResourceInfo | None:
        rules = hook.spec.get("rules") or ()
        if any(_rule_matches(rule, request, request.info) for rule in rules):
            return request.info
        others = self._registry.versions(request.info.group, request.info.plural)
        if hook.spec.get("matchPolicy") != "Equivalent" or len(others) == 1:
            return None
        for rule in rules:
            for other in others:
                if other.version != request.info.version and _rule_matches(rule, request, other):
                    return other
        return None

    def _selects_namespace(self, hook: Hook, request: AdmissionRequest) -> bool:
        if not hook.namespaces.requirements:
            return True
        if request.info.collection == resources.NAMESPACES.collection:
            subject = request.obj or request.old or {}
            return hook.namespaces.matches(_labels(subject))
        if not request.namespace:
            return True
        collection = resources.NAMESPACES.collection
        stored = self._store.get(collection, ("", request.namespace))
        if stored is None:
            raise not_found(resources.NAMESPACES, request.namespace)
        return hook.namespaces.matches(_labels(stored.obj))

    async def _conditions_hold(
        self, hook: Hook, request: AdmissionRequest, info: ResourceInfo
    ) -> bool:
        if not hook.conditions:
            return True
        seen = await in_version(self._converter, request, info)
        values = {
            "object": seen.obj,
            "oldObject": seen.old,
            "request": request_body(request, info, uid=""),
        }
        errors = []
        for condition in hook.conditions:
            try:
                if condition.evaluate(values) is False:
                    return False
            except cel.EvaluationError as error:
                errors.append(f"expression '{error.expression}' resulted in error: {error.detail}")
        if errors and not hook.fails_open:
            raise _unevaluated(request, errors)
        return not errors


def _unevaluated(request: AdmissionRequest, errors: list[str]) -> StatusError:
    why = errors[0] if len(errors) == 1 else "[" + ", ".join(dict.fromkeys(errors)) + "]"
    return forbidden(request.info, request.name, why)


def _labels(obj: Object) -> dict[str, str]:
    labels: dict[str, str] = obj.get("metadata", {}).get("labels") or {}
    return labels


def _selects_object(hook: Hook, request: AdmissionRequest) -> bool:
    """Return True if the object selector matches the new object or the old one."""
    if not hook.objects.requirements:
        return True
    subjects = [one for one in (request.obj, request.old) if one is not None]
    return any(hook.objects.matches(_labels(one)) for one in subjects)


def _rule_matches(rule: Object, request: AdmissionRequest, info: ResourceInfo) -> bool:
    return (
        _has(rule["operations"], request.operation)
        and _has(rule["apiGroups"], info.group)
        and _has(rule["apiVersions"], info.version)
        and _in_scope(rule.get("scope") or "*", request)
        and any(_names(name, info.plural, request.subresource) for name in rule["resources"])
    )


def _has(wanted: list[str], value: str) -> bool:
    return "*" in wanted or value in wanted


def _names(wanted: str, plural: str, subresource: str) -> bool:
    resource, _, sub = wanted.partition("/")
    return resource in {"*", plural} and sub in {"*", subresource}


def _in_scope(scope: str, request: AdmissionRequest) -> bool:
    is_namespaced = request.info.namespaced
    return scope == "*" or (scope == "Namespaced") == is_namespaced
