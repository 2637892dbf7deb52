"""Permissions of Muster's accounts: granted by manifests/, used according to an audit log.

`python -m e2e.harness.permissions AUDIT_LOG` lists the denied requests, and the permissions that
were never used. `pytest e2e --keep-audit=FILE` keeps the log of a run. The log does not show the
use of permissions for finalizers: admission checks them when an object names its owner.
"""

import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from e2e.harness.support import manifests

Object = dict[str, Any]

NAMESPACE = "muster-system"
_ACCOUNT = f"system:serviceaccount:{NAMESPACE}:"
_DECISION = "authorization.k8s.io/decision"


@dataclass(frozen=True, slots=True, order=True)
class Right:
    """A permission or request of an account: a verb on a resource or subresource of a group."""

    account: str
    verb: str
    group: str
    resource: str

    def __str__(self) -> str:
        group = f".{self.group}" if self.group else ""
        return f"{self.account}: {self.verb} {self.resource}{group}"


def given(objects: Sequence[Object]) -> set[Right]:
    """Return all permissions that the roles of manifests grant to accounts."""
    return {
        Right(subject["name"], verb, group, resource)
        for binding in objects
        if binding["kind"].endswith("RoleBinding")
        for subject in binding["subjects"]
        for rule in _role(objects, binding)["rules"]
        for verb in rule["verbs"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
    }


def _role(objects: Sequence[Object], binding: Object) -> Object:
    ref, namespace = binding["roleRef"], binding["metadata"].get("namespace")
    return next(
        one
        for one in objects
        if (one["kind"], one["metadata"]["name"]) == (ref["kind"], ref["name"])
        and one["metadata"].get("namespace") == (namespace if ref["kind"] == "Role" else None)
    )


def used(audit: Path) -> set[Right]:
    """Return the permissions that were used."""
    return {right for right, decision, _ in _requests(audit) if decision == "allow"}


def refused(audit: Path, rights: set[Right]) -> list[str]:
    """Return the denied requests of Muster's accounts that are not among `rights`, each once.

    Permissions of the roles are denied too for a moment, because an API server that just started
    has not read the roles yet.
    """
    texts = [
        f"{right} {uri}"
        for right, decision, uri in _requests(audit)
        if decision == "forbid" and right not in rights
    ]
    return sorted(set(texts))


def _requests(audit: Path) -> Iterator[tuple[Right, str, str]]:
    with audit.open() as lines:
        for line in lines:
            if _ACCOUNT not in line:
                continue
            event = json.loads(line)
            name = event["user"]["username"]
            about = event.get("objectRef")
            decision = event.get("annotations", {}).get(_DECISION)
            if name.startswith(_ACCOUNT) and about and decision:
                part = "/".join(filter(None, (about["resource"], about.get("subresource"))))
                account = name.removeprefix(_ACCOUNT)
                right = Right(account, event["verb"], about.get("apiGroup", ""), part)
                yield right, decision, event["requestURI"]


def main() -> int:
    audit = Path(sys.argv[1])
    rights = given(manifests.load())
    refusals = refused(audit, rights)
    for text in refusals:
        print(f"refused: {text}")
    for right in sorted(rights - used(audit)):
        if not right.resource.endswith("/finalizers"):
            print(f"never used: {right}")
    return 1 if refusals else 0


if __name__ == "__main__":
    sys.exit(main())
