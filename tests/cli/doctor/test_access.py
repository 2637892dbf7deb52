"""Findings about permissions."""

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


@pytest.mark.parametrize("api", ["native", "auto"])
def test_the_rights_to_create_native_groups_are_needed_where_that_is_on(api: str) -> None:
    config = configuration_of({"data": {"muster.yaml": f"groups: {{api: {api}}}"}})
    installed = Installation("muster-system", config=config)
    more = set(needed(installed)) - set(RIGHTS)
    assert {right.part for right in more} == {"controller", "webhook"}
    allowed = {right: right not in more for right in needed(installed)}

    of_controller, of_webhook = check_access(allowed, installed)

    assert of_controller.problem == (
        "it cannot create, delete, get, list, patch, watch podgroups.scheduling.k8s.io"
    )
    assert of_webhook.problem == "it cannot create podgroups.scheduling.k8s.io"
    assert of_webhook.action == (
        "kubectl apply -f manifests/base/native-groups-controller-rbac.yaml"
    )


def with_console() -> Installation:
    container = {"name": "muster", "args": ["console", "--in-cluster"]}
    pod = {"serviceAccountName": "muster-console", "containers": [container]}
    return Installation("muster-system", [{"spec": {"template": {"spec": pod}}}])


def test_the_console_is_asked_about_where_it_is_installed() -> None:
    installed = with_console()
    rights = needed(installed)

    more = set(rights) - set(RIGHTS)
    assert {right.part for right in more} == {"console"}
    assert Right("console", "authentication.k8s.io", "tokenreviews", "create") in more
    assert installed.accounts == INSTALLED.accounts | {"console": "muster-console"}


def test_what_the_console_lacks_is_mended_by_its_own_manifests_or_by_the_release() -> None:
    installed = with_console()
    allowed = {right: right.resource != "tokenreviews" for right in needed(installed)}

    (finding,) = check_access(allowed, installed)
    installed.deployments[0]["metadata"] = {
        "annotations": {
            "meta.helm.sh/release-name": "muster",
            "meta.helm.sh/release-namespace": "muster-system",
        }
    }
    (of_release,) = installed.advised([finding])

    assert str(finding.about) == "ServiceAccount muster-system/muster-console"
    assert finding.problem == "it cannot create tokenreviews.authentication.k8s.io"
    assert finding.action == "kubectl apply -k manifests/console"
    assert of_release.action.startswith("helm upgrade muster ")


def test_all_rights_are_there() -> None:
    (finding,) = check_access(dict.fromkeys(RIGHTS, True), INSTALLED)

    assert finding.severity == Severity.INFO


def test_one_finding_for_an_account_and_a_resource() -> None:
    allowed = {right: right.resource != "pods" for right in RIGHTS if right.part == "scheduler"}

    (finding,) = check_access(allowed, INSTALLED)

    assert finding.severity == Severity.ERROR
    assert str(finding.about) == "ServiceAccount muster-system/muster-scheduler"
    assert finding.problem == "it cannot delete, get, list, watch pods"


def test_an_account_without_any_right_is_one_finding() -> None:
    allowed = {right: right.part != "webhook" for right in RIGHTS}

    (finding,) = check_access(allowed, INSTALLED)

    assert finding.problem == "it has no rights: no role is bound to it"


@pytest.mark.parametrize("deployed", [False, True])
def test_processes_elsewhere_have_accounts_of_their_own(deployed: bool) -> None:
    installed = with_console() if deployed else INSTALLED

    findings = list(check_access(dict.fromkeys(needed(installed), False), installed))

    assert {one.severity for one in findings} == {Severity.ERROR if deployed else Severity.INFO}


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
