"""Access checks for admin access, allocation of claims and reports on devices."""

from collections.abc import Iterable
from typing import Any

from localcluster.base.errors import Cause
from localcluster.base.fielderrors import forbidden
from localcluster.base.hooks import User
from localcluster.base.resources import NAMESPACES, RESOURCE_CLAIMS
from localcluster.base.store import Store
from localcluster.builtin.devices.claim_status import device_id, results_of
from localcluster.rbac.attributes import Attributes, refusal
from localcluster.rbac.authorizer import Authorizer

Object = dict[str, Any]

ADMIN_LABEL = "resource.kubernetes.io/admin-access"


class Rights:
    """Access checks against the namespaces and roles in the store."""

    def __init__(self, store: Store, authorizer: Authorizer) -> None:
        """Create the checks over a store and an authorizer."""
        self._store = store
        self._authorizer = authorizer

    def admin_request(self, requests: Iterable[Object], namespace: str) -> list[Cause]:
        """Return an error for admin access if the namespace lacks the label."""
        for index, request in enumerate(requests):
            if (request.get("exactly") or {}).get("adminAccess"):
                where = f"spec.devices.requests[{index}].adminAccess"
                return self._labelled(namespace, where)
        return []

    def admin_result(self, new: Object, old: Object, namespace: str) -> list[Cause]:
        """Return the same error for the results of an allocation."""
        if any(one.get("adminAccess") for one in results_of(old)):
            return []
        for index, result in enumerate(results_of(new)):
            if result.get("adminAccess"):
                where = f"status.allocation.devices.results[{index}].adminAccess"
                return self._labelled(namespace, where)
        return []

    def status(
        self, user: User, verb: str, namespace: str, new: Object, old: Object
    ) -> list[Cause]:
        """Return the errors of a status change that the user may not make."""
        causes = []
        if any(new.get(name) != old.get(name) for name in ("allocation", "reservedFor")):
            causes += self._binding(user, verb)
        if new.get("allocation") is not None:
            causes += self._drivers(user, verb, namespace, _changed_drivers(new, old))
        return causes

    def _labelled(self, namespace: str, at: str) -> list[Cause]:
        found = self._store.get(NAMESPACES.collection, ("", namespace))
        labels = (found.obj["metadata"].get("labels") or {}) if found else {}
        if labels.get(ADMIN_LABEL) == "true":
            return []
        text = (
            f"admin access to devices requires the `{ADMIN_LABEL}: true` label on the containing "
            "namespace"
        )
        return [forbidden(at, text)]

    def _binding(self, user: User, verb: str) -> list[Cause]:
        denied = self._denied(user, _asked(verb, "binding", "", ""))
        if denied is None:
            return []
        text = (
            "changing status.allocation or status.reservedFor requires "
            f'resource="resourceclaims/binding", verb="{verb}" permission: {denied}'
        )
        return [forbidden("status.allocation", text)]

    def _drivers(
        self, user: User, verb: str, namespace: str, drivers: Iterable[str]
    ) -> list[Cause]:
        causes, wanted = [], f"arbitrary-node:{verb}"
        for driver in drivers:
            denied = self._denied(user, _asked(wanted, "driver", namespace, driver))
            if denied is not None:
                text = (
                    'changing status.devices requires resource="resourceclaims/driver", '
                    f'verb="[{wanted}]" permission: {denied}'
                )
                causes.append(forbidden("status.devices", text))
        return causes

    def _denied(self, user: User, asked: Attributes) -> str | None:
        decision = self._authorizer.decide(user, asked)
        return None if decision.allowed else refusal(user.name, asked, decision.reason).message


def _asked(verb: str, part: str, namespace: str, name: str) -> Attributes:
    info = RESOURCE_CLAIMS
    return Attributes(verb, info.group, info.version, info.plural, part, namespace, name)


def _changed_drivers(new: Object, old: Object) -> list[str]:
    before = {device_id(one): one for one in old.get("devices") or ()}
    after = {device_id(one): one for one in new.get("devices") or ()}
    changed = {key for key in before.keys() | after.keys() if before.get(key) != after.get(key)}
    return sorted({driver for driver, *_ in changed})
