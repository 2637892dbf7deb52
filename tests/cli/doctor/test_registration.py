"""Findings about webhooks, certificates and trial requests."""

import copy
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from api.constants import FINALIZER_POD_GROUP, POD_GROUP
from certs.authority import Lifetimes, new_material
from certs.bundle import encoded
from certs.material import Material, ServerNames
from cli.doctor.findings import About, Finding, Severity
from cli.doctor.installation import Installation, configuration_of
from cli.doctor.registration import (
    CONVERTED,
    COSCHEDULED,
    REFUSED,
    VALID,
    DryRunTrial,
    Registration,
    check_bundles,
    check_registration,
    check_server,
    check_trials,
    secret_name,
)
from kube.base.errors import (
    ApiError,
    Forbidden,
    Invalid,
    KubeError,
    NotFound,
    ServerError,
    StatusCause,
)
from kube.client.resources import Resource
from webhooks.server.registration import host_of, load_manifests

Json = dict[str, Any]
NOW = datetime(2026, 6, 1, tzinfo=UTC)
NAMES = ServerNames.of_service("muster-webhook", "muster-system")
SECRET = About("Secret", "muster-webhook-certificates", "muster-system")
INFO, WARNING, ERROR = Severity.INFO, Severity.WARNING, Severity.ERROR
MATERIAL = new_material(NAMES, NOW)


def registered(bundle: str = encoded(MATERIAL.ca_bundle)) -> Registration:
    found = {one["kind"]: one for one in load_manifests()}
    for one in found.values():
        for webhook in one["webhooks"]:
            webhook["clientConfig"]["caBundle"] = bundle
    return Registration(found, {})


def secret(material: Material) -> Json:
    return {"data": material.to_secret_data()}


def worst(found: list[Finding]) -> Severity:
    return max((one.severity for one in found), default=INFO)


def test_what_is_as_in_the_manifests_is_no_finding() -> None:
    assert list(check_registration(registered())) == []


def less(found: Json) -> None:
    del found["webhooks"][0]


def ignoring(found: Json) -> None:
    found["webhooks"][0]["failurePolicy"] = "Ignore"


@pytest.mark.parametrize(
    ("change", "want", "text"),
    [
        pytest.param(less, ERROR, "is missing", id="a webhook is missing"),
        pytest.param(
            ignoring, WARNING, "differs from this version: failurePolicy", id="it differs"
        ),
    ],
)
def test_configurations(change: Callable[[Json], None], want: Severity, text: str) -> None:
    found = registered()
    change(found.configurations["MutatingWebhookConfiguration"])  # type: ignore[arg-type]

    (finding,) = check_registration(found)

    assert finding.severity == want
    assert text in finding.problem


def test_a_configuration_that_is_not_there() -> None:
    found = Registration({**registered().configurations, "MutatingWebhookConfiguration": None}, {})

    (finding,) = check_registration(found)

    assert (finding.severity, finding.about.kind) == (ERROR, "MutatingWebhookConfiguration")


@pytest.mark.parametrize(
    ("bundle", "now", "want", "text"),
    [
        pytest.param(encoded(MATERIAL.ca_bundle), NOW, INFO, "expires on 2036", id="in order"),
        pytest.param("", NOW, ERROR, "caBundle is empty", id="empty"),
        pytest.param(
            "bm9uZQ==", NOW, ERROR, "caBundle is not a certificate", id="not a certificate"
        ),
        pytest.param("%", NOW, ERROR, "caBundle is not a certificate", id="not base64"),
        pytest.param(
            encoded(MATERIAL.ca_bundle),
            NOW + timedelta(days=3640),
            WARNING,
            "not renewed",
            id="soon",
        ),
        pytest.param(
            encoded(MATERIAL.ca_bundle), NOW + timedelta(days=3660), ERROR, "expired on", id="ended"
        ),
    ],
)
def test_bundles(bundle: str, now: datetime, want: Severity, text: str) -> None:
    (finding,) = check_bundles(registered(bundle), "muster-system", now)

    assert finding.severity == want
    assert text in finding.problem


def test_bundles_that_differ() -> None:
    found = registered()
    found.configurations["MutatingWebhookConfiguration"]["webhooks"][0]["clientConfig"][  # type: ignore[index]
        "caBundle"
    ] = encoded(new_material(NAMES, NOW).ca_bundle)

    problems = [one for one in check_bundles(found, "muster-system", NOW) if one.severity == ERROR]

    assert ["different CAs" in one.problem for one in problems] == [True]


SHORT = Lifetimes(timedelta(days=3650), timedelta(days=20), timedelta(days=5))


@pytest.mark.parametrize(
    ("material", "now", "want", "text"),
    [
        pytest.param(MATERIAL, NOW, INFO, "expires on 2027", id="in order"),
        pytest.param(new_material(NAMES, NOW), NOW, ERROR, "do not trust", id="another CA's"),
        pytest.param(MATERIAL, NOW + timedelta(days=350), WARNING, "not renewed", id="at its end"),
        pytest.param(MATERIAL, NOW + timedelta(days=370), ERROR, "expired on", id="ended"),
    ],
)
def test_the_servers_certificate(
    material: Material, now: datetime, want: Severity, text: str
) -> None:
    found = list(check_server(registered(), secret(material), SECRET, now))

    assert worst(found) == want
    assert any(text in one.problem for one in found)


def test_a_certificate_for_another_name() -> None:
    material = new_material(ServerNames.of_service("other", "elsewhere"), NOW)
    found = check_server(registered(encoded(material.ca_bundle)), secret(material), SECRET, NOW)

    (finding,) = [one for one in found if one.severity == ERROR]
    assert "not valid for muster-webhook.muster-system.svc" in finding.problem


def test_a_secret_that_is_empty_and_one_that_is_not_there() -> None:
    by_url = registered()
    by_url.configurations["MutatingWebhookConfiguration"]["webhooks"][0]["clientConfig"] = {  # type: ignore[index]
        "url": "https://127.0.0.1:9443/x"
    }
    (empty,) = check_server(registered(), {"data": {}}, SECRET, NOW)
    (absent,) = check_server(registered(), None, SECRET, NOW)
    (elsewhere,) = check_server(by_url, {"data": {}}, SECRET, NOW)
    (nowhere,) = check_server(Registration({}, {}), None, SECRET, NOW)

    assert (empty.severity, absent.severity) == (ERROR, WARNING)
    assert (elsewhere.severity, nowhere.severity) == (INFO, INFO)
    command = "kubectl -n muster-system create secret generic muster-webhook-certificates"
    assert absent.action.startswith(command)


@pytest.mark.parametrize(
    ("config", "want"),
    [
        ({"service": {"name": "a", "namespace": "b"}}, "a.b.svc"),
        ({"url": "https://127.0.0.1:9443/convert"}, "127.0.0.1"),
        ({"url": "https://[::1]:1/x"}, "::1"),
        ({"url": "https://[broken"}, ""),
        ({}, ""),
    ],
)
def test_the_host_that_is_called(config: Json, want: str) -> None:
    assert host_of(config) == want


def test_the_secret_is_that_of_who_makes_the_certificates() -> None:
    config = configuration_of({"data": {"muster.yaml": "webhook: {certificates: {mounted: /c}}"}})
    volumes = [{"name": "x", "emptyDir": {}}, {"name": "c", "secret": {"secretName": "theirs"}}]
    deployment = {"spec": {"template": {"spec": {"volumes": volumes}}}}

    assert secret_name(Installation("ns", [deployment], config=config)) == "theirs"
    assert secret_name(Installation("ns")) == "muster-webhook-certificates"


RESOURCE = Resource(*POD_GROUP)
MADE = {"metadata": {"finalizers": [FINALIZER_POD_GROUP]}}
NO_CALL = ServerError(500, "InternalError", 'failed calling webhook "x": connection refused')
GATE_OFF = Invalid(
    422, "Invalid", "denied", (StatusCause("kind", "", "Forbidden: feature gate X is off: ..."),)
)
RULE = Invalid(422, "Invalid", "denied", (StatusCause("spec.topology[0].key", "", ""),))


@pytest.mark.parametrize(
    ("name", "outcome", "want", "text"),
    [
        pytest.param(VALID, MADE, None, "", id="completed"),
        pytest.param(
            VALID, {"metadata": {}}, ERROR, "does not call the mutating webhook", id="bare"
        ),
        pytest.param(VALID, NO_CALL, ERROR, "no object can be created", id="the webhook is down"),
        pytest.param(VALID, NotFound(404, "NotFound", "no"), None, "", id="no kind"),
        pytest.param(
            VALID,
            NotFound(404, "NotFound", "no", name="x"),
            WARNING,
            "not be tested",
            id="no namespace",
        ),
        pytest.param(
            VALID, Forbidden(403, "Forbidden", "no"), WARNING, "not be tested", id="no right"
        ),
        pytest.param(VALID, Invalid(422, "Invalid", "odd"), ERROR, "valid request fails", id="odd"),
        pytest.param(REFUSED, RULE, None, "", id="refused as it should be"),
        pytest.param(COSCHEDULED, GATE_OFF, None, "", id="switched off"),
        pytest.param(REFUSED, MADE, ERROR, "does not call the validating webhook", id="taken"),
        pytest.param(REFUSED, NO_CALL, ERROR, "no object can be created", id="down for both"),
        pytest.param(CONVERTED, MADE, None, "", id="converted"),
        pytest.param(CONVERTED, NO_CALL, ERROR, "no object can be converted", id="not converted"),
    ],
)
def test_trials(name: str, outcome: Json | ApiError, want: Severity | None, text: str) -> None:
    made: Json | KubeError = copy.copy(outcome) if isinstance(outcome, dict) else outcome
    found = list(check_trials([DryRunTrial(name, RESOURCE, made)], "default"))

    assert [one.severity for one in found] == ([] if want is None else [want])
    assert all(text in one.problem and one.action for one in found)
