"""What is said about rights."""

from __future__ import annotations

import pytest

from cli.doctor.access import Right, check_access, needed, review
from cli.doctor.findings import Severity
from cli.doctor.installation import Installation, configuration_of

INSTALLED = Installation("muster-system")
RIGHTS = needed(INSTALLED)


def test_the_rights_are_those_of_the_manifests() -> None:
    assert Right("scheduler", "", "pods/binding", "create") in RIGHTS
    lease = Right(
        "scheduler", "coordination.k8s.io", "leases", "update", "muster-scheduler", "muster-system"
    )
    assert lease in RIGHTS
    secret = Right(
        "webhook", "", "secrets", "patch", "muster-webhook-certificates", "muster-system"
    )
    assert secret in RIGHTS
    assert {right.part for right in RIGHTS} == {"webhook", "controller", "scheduler"}


@pytest.mark.parametrize(
    ("written", "gone"),
    [
        pytest.param(
            "webhook: {certificates: {mounted: /c}}",
            lambda right: (
                right.part == "webhook" and (right.verb == "patch" or "secret" in right.on)
            ),
            id="others make the certificates",
        ),
        pytest.param(
            "leaderElection: {enabled: false}", lambda right: "leases" in right.on, id="no election"
        ),
    ],
)
def test_what_is_not_needed_is_not_asked_for(written: str, gone: object) -> None:
    config = configuration_of({"data": {"muster.yaml": written}})
    rights = needed(Installation("muster-system", config=config))

    assert set(RIGHTS) - set(rights) == set(filter(gone, RIGHTS))  # type: ignore[call-overload]


def test_all_rights_are_there() -> None:
    (finding,) = check_access(dict.fromkeys(RIGHTS, True), INSTALLED.accounts, "muster-system")

    assert finding.severity == Severity.INFO


def test_one_finding_for_an_account_and_a_resource() -> None:
    allowed = {right: right.resource != "pods" for right in RIGHTS if right.part == "scheduler"}

    (finding,) = check_access(allowed, INSTALLED.accounts, "muster-system")

    assert finding.severity == Severity.ERROR
    assert str(finding.about) == "ServiceAccount muster-system/muster-scheduler"
    assert finding.problem == "it may not delete, get, list, watch pods"


def test_an_account_without_any_right_is_one_finding() -> None:
    allowed = {right: right.part != "webhook" for right in RIGHTS}

    (finding,) = check_access(allowed, INSTALLED.accounts, "muster-system")

    assert finding.problem == "it has none of its rights: no role is bound to it"


def test_a_right_is_asked_for_as_kubernetes_writes_it() -> None:
    right = Right("scheduler", "", "pods/status", "patch", "", "ns")

    spec = review(right, "account", "muster-system")["spec"]

    assert spec["user"] == "system:serviceaccount:muster-system:account"
    assert spec["resourceAttributes"] == {
        "namespace": "ns",
        "verb": "patch",
        "resource": "pods",
        "subresource": "status",
    }
