"""Rejected webhook configurations, with the messages recorded from kube-apiserver 1.36.3."""

from typing import Any

import pytest

from localcluster.schemas.webhook_rules import check_configuration

GOOD: dict[str, Any] = {
    "name": "a.b.c",
    "clientConfig": {"url": "https://x/y"},
    "rules": [
        {"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]}
    ],
    "sideEffects": "None",
    "admissionReviewVersions": ["v1"],
}


def causes(**changes: Any) -> list[tuple[str, str]]:
    config = {"webhooks": [GOOD | changes]}
    return [(one.field, one.message) for one in check_configuration(config, mutating=True)]


def rule(**changes: Any) -> list[dict[str, Any]]:
    return [GOOD["rules"][0] | changes]


def condition(expression: str, name: str = "n") -> list[dict[str, Any]]:
    return [{"name": name, "expression": expression}]


def test_a_right_configuration_passes() -> None:
    assert causes(matchConditions=condition("object.kind == 'Pod'")) == []


@pytest.mark.parametrize(
    ("changes", "field", "message"),
    [
        pytest.param(
            {"name": "a.b"},
            "name",
            'Invalid value: "a.b": should be a domain with at least three segments'
            " separated by dots",
            id="a name of two segments",
        ),
        pytest.param(
            {"rules": rule(operations=["CREATE", "*"])},
            "rules[0].operations",
            'Invalid value: ["CREATE","*"]: if \'*\' is present, must not specify other operations',
            id="all operations and another",
        ),
        pytest.param(
            {"rules": rule(apiGroups=[])},
            "rules[0].apiGroups",
            "Required value",
            id="no group",
        ),
        pytest.param(
            {"rules": rule(apiVersions=[""])},
            "rules[0].apiVersions[0]",
            "Required value",
            id="an empty version",
        ),
        pytest.param(
            {"rules": rule(resources=["pods/*", "pods/status"])},
            "rules[0].resources[1]",
            "Invalid value: \"pods/status\": if 'pods/*' is present, must not specify pods/status",
            id="a sub-resource beside all of them",
        ),
        pytest.param(
            {"rules": rule(scope="X")},
            "rules[0].scope",
            'Unsupported value: "X": supported values: "*", "Cluster", "Namespaced"',
            id="an unknown scope",
        ),
        pytest.param(
            {"failurePolicy": "Maybe"},
            "failurePolicy",
            'Unsupported value: "Maybe": supported values: "Fail", "Ignore"',
            id="an unknown failure policy",
        ),
        pytest.param(
            {"sideEffects": "Some"},
            "sideEffects",
            'Unsupported value: "Some": supported values: "None", "NoneOnDryRun"',
            id="side effects",
        ),
        pytest.param(
            {"timeoutSeconds": 31},
            "timeoutSeconds",
            "Invalid value: 31: the timeout value must be between 1 and 30 seconds",
            id="a long time-out",
        ),
        pytest.param(
            {"clientConfig": {}},
            "clientConfig",
            "Required value: exactly one of url or service is required",
            id="no address",
        ),
        pytest.param(
            {"clientConfig": {"url": "http://x"}},
            "clientConfig.url",
            "Invalid value: \"http\": 'https' is the only allowed URL scheme;"
            " desired format: https://host[/path]",
            id="a URL without TLS",
        ),
        pytest.param(
            {"clientConfig": {"url": "https://x?y=1"}},
            "clientConfig.url",
            'Invalid value: "y=1": query parameters are not permitted in the URL',
            id="a URL with a query",
        ),
        pytest.param(
            {"clientConfig": {"service": {"name": "a", "namespace": "b", "port": 99999}}},
            "clientConfig.service.port",
            "Invalid value: 99999: port is not valid: must be between 1 and 65535, inclusive",
            id="a port out of range",
        ),
        pytest.param(
            {"namespaceSelector": {"matchExpressions": [{"key": "a", "operator": "Foo"}]}},
            "namespaceSelector.matchExpressions[0].operator",
            'Invalid value: "Foo": not a valid selector operator',
            id="an unknown operator",
        ),
        pytest.param(
            {"matchConditions": condition("object.metadata.name")},
            "matchConditions[0].expression",
            'Invalid value: "object.metadata.name": must evaluate to bool but got dyn',
            id="a condition that need not be a bool",
        ),
        pytest.param(
            {"matchConditions": condition("1")},
            "matchConditions[0].expression",
            'Invalid value: "1": must evaluate to bool but got int',
            id="a condition that is a number",
        ),
        pytest.param(
            {"matchConditions": condition("foo == 1")},
            "matchConditions[0].expression",
            'Invalid value: "foo == 1": compilation failed: ERROR: <input>:1:1: undeclared'
            " reference to 'foo' (in container '')\n | foo == 1\n | ^",
            id="a condition over an unknown variable",
        ),
        pytest.param(
            {"matchConditions": condition("")},
            "matchConditions[0].expression",
            "Required value",
            id="an empty condition",
        ),
        pytest.param(
            {"admissionReviewVersions": ["v2"]},
            "admissionReviewVersions",
            'Invalid value: ["v2"]: must include at least one of v1, v1beta1',
            id="an unknown review version",
        ),
        pytest.param(
            {"admissionReviewVersions": []},
            "admissionReviewVersions",
            "Required value: must specify one of v1, v1beta1",
            id="no review version",
        ),
    ],
)
def test_a_wrong_configuration_is_refused(
    changes: dict[str, Any], field: str, message: str
) -> None:
    assert causes(**changes) == [(f"webhooks[0].{field}", message)]


def test_an_expression_that_cannot_be_run_here_is_refused() -> None:
    (cause,) = causes(matchConditions=condition("authorizer.path('/x').check('get').allowed()"))

    assert cause[0] == "webhooks[0].matchConditions[0].expression"


def test_names_are_unique() -> None:
    config = {"webhooks": [GOOD, GOOD]}

    found = check_configuration(config, mutating=False)

    assert [(one.field, one.message) for one in found] == [
        ("webhooks[1].name", 'Duplicate value: "a.b.c"')
    ]


def test_a_bundle_that_is_no_certificate_is_refused() -> None:
    client = {"url": "https://x/y", "caBundle": "bm9uZQ=="}

    assert [field for field, _ in causes(clientConfig=client)] == [
        "webhooks[0].clientConfig.caBundle"
    ]
