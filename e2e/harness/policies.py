"""Policies that change objects at admission, as an administrator's cluster may have them."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from e2e.harness.support.rest import Rest

_VERSION = "admissionregistration.k8s.io/v1"
_PATH = f"/apis/{_VERSION}/mutatingadmissionpolic"


@asynccontextmanager
async def mutating(
    rest: Rest,
    name: str,
    resources: tuple[str, str],
    expression: str,
    *,
    operations: Sequence[str] = ("CREATE", "UPDATE"),
    **match: Any,
) -> AsyncIterator[None]:
    """Apply a CEL expression to objects of (group, plural name) until the end of the block.

    `match` has further match constraints, `namespaceSelector` for example. Raises AssertionError
    if the API server does not serve these policies.
    """
    group, plural = resources
    rule = {
        "apiGroups": [group],
        "apiVersions": ["*"],
        "operations": list(operations),
        "resources": [plural],
    }
    change = {"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": expression}}
    spec = {
        "failurePolicy": "Fail",
        "reinvocationPolicy": "Never",
        "matchConstraints": {"resourceRules": [rule], **match},
        "mutations": [change],
    }
    policy = {"apiVersion": _VERSION, "kind": "MutatingAdmissionPolicy", "spec": spec}
    bound = {"policyName": name}
    binding = {"apiVersion": _VERSION, "kind": "MutatingAdmissionPolicyBinding", "spec": bound}
    metadata = {"metadata": {"name": name}}
    (await rest.post(f"{_PATH}ies", policy | metadata)).ok()
    (await rest.post(f"{_PATH}ybindings", binding | metadata)).ok()
    try:
        yield
    finally:
        (await rest.delete(f"{_PATH}ybindings/{name}")).ok()
        (await rest.delete(f"{_PATH}ies/{name}")).ok()


async def are_served(rest: Rest) -> bool:
    """Return True if the API server serves these policies: since Kubernetes 1.36."""
    return (await rest.get(f"{_PATH}ies")).status == 200
