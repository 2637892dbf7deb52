"""Findings about Deployments, pods, definitions and versions."""

import copy
from collections.abc import Callable
from typing import Any

import pytest

from cli.config.config import File
from cli.doctor.findings import About, Check, Severity
from cli.doctor.installation import (
    APPLY,
    Installation,
    check_definitions,
    check_parts,
    check_pods,
    check_version,
    configuration_of,
)
from cli.manifests.packaged_manifests import definitions
from kube.base.errors import ConfigError

Json = dict[str, Any]
INFO, WARNING, ERROR = Severity.INFO, Severity.WARNING, Severity.ERROR


def deployment(part: str, *, image: str = "muster:0.1.0", **status: int) -> Json:
    container = {"name": "muster", "image": image, "args": [part, "--config=x"]}
    pod = {"serviceAccountName": f"muster-{part}", "containers": [container]}
    return {
        "metadata": {"name": f"muster-{part}", "namespace": "muster-system"},
        "spec": {"replicas": 2, "template": {"spec": pod}},
        "status": {"observedGeneration": 1, "availableReplicas": 2} | status,
    }


def three(**changed: Json) -> list[Json]:
    return [
        changed.get(part) or deployment(part) for part in ("webhook", "controller", "scheduler")
    ]


def without(obj: Json, *path: str) -> Json:
    holder = obj
    for key in path[:-1]:
        holder = holder[key]
    del holder[path[-1]]
    return obj


def scaled(obj: Json, replicas: int) -> Json:
    obj["spec"]["replicas"] = replicas
    return obj


@pytest.mark.parametrize(
    ("deployments", "want", "text"),
    [
        pytest.param(three(), INFO, "2 of 2 replicas are available", id="in order"),
        pytest.param([], INFO, "it has no Deployment of Muster", id="it runs elsewhere"),
        pytest.param(
            three()[:2], ERROR, "no Deployment runs the scheduler", id="a part is missing"
        ),
        pytest.param([deployment("all")], INFO, "2 of 2", id="one process has all parts"),
        pytest.param(
            three(webhook=deployment("webhook", image="muster:0.2.0")),
            WARNING,
            "different versions run at the same time: muster:0.1.0, muster:0.2.0",
            id="half upgraded",
        ),
        pytest.param(
            three(webhook=scaled(deployment("webhook"), 0)), ERROR, "scaled to 0", id="scaled to 0"
        ),
        pytest.param(
            three(webhook=deployment("webhook", availableReplicas=0)),
            ERROR,
            "0 of 2 replicas",
            id="no replica",
        ),
        pytest.param(
            three(webhook=deployment("webhook", availableReplicas=1)),
            WARNING,
            "1 of 2 replicas",
            id="one replica of two",
        ),
        pytest.param(
            three(webhook=without(deployment("webhook"), "status", "observedGeneration")),
            INFO,
            "no Deployment controller has processed it",
            id="nothing makes replicas",
        ),
    ],
)
def test_deployments(deployments: list[Json], want: Severity, text: str) -> None:
    found = list(check_parts(Installation("muster-system", deployments)))

    assert max(one.severity for one in found) == want
    assert any(text in one.problem and one.severity == want for one in found)
    assert all(one.action for one in found if one.severity > INFO)


def of_release(obj: Json, **annotations: Any) -> Json:
    said = {"release-name": "gangs", "release-namespace": "muster-system"} | annotations
    obj["metadata"]["annotations"] = {f"meta.helm.sh/{key}": value for key, value in said.items()}
    return obj


@pytest.mark.parametrize(
    ("deployments", "want"),
    [
        pytest.param(three()[:2], "kubectl apply -k manifests/base", id="by manifests"),
        pytest.param([], "kubectl apply -k manifests/base", id="nothing is there"),
        pytest.param(
            [of_release(deployment("webhook"))],
            "helm upgrade gangs charts/muster --namespace muster-system",
            id="by Helm",
        ),
        pytest.param(
            [deployment("webhook"), of_release(deployment("scheduler"))],
            "helm upgrade gangs",
            id="one of them is Helm's",
        ),
        pytest.param(
            [of_release(deployment("webhook"), **{"release-name": 7})],
            "kubectl apply",
            id="odd types",
        ),
    ],
)
def test_who_installed_muster_is_who_mends_it(deployments: list[Json], want: str) -> None:
    installed = Installation("muster-system", deployments)
    webhook = About("ValidatingWebhookConfiguration", "muster")
    missing = Check("registration", webhook).error("x", APPLY)
    other = Check("parts", About("Pod", "p")).error("x", "look at its log")

    advised, as_it_was = installed.advised([missing, other])

    assert advised.action.startswith(want)
    assert (advised.problem, as_it_was) == (missing.problem, other)


def muster_pod(**status: Any) -> Json:
    return {
        "metadata": {"name": "p", "namespace": "muster-system"},
        "spec": {"nodeName": "n"},
        "status": {"phase": "Running"} | status,
    }


@pytest.mark.parametrize(
    ("pod", "want", "text"),
    [
        pytest.param(muster_pod(), None, "", id="in order"),
        pytest.param(
            without(muster_pod(phase="Pending"), "spec", "nodeName"), ERROR, "no node", id="no node"
        ),
        pytest.param(
            muster_pod(containerStatuses=[{"state": {"waiting": {"reason": "ImagePullBackOff"}}}]),
            ERROR,
            "ImagePullBackOff",
            id="no image",
        ),
        pytest.param(
            muster_pod(
                containerStatuses=[
                    {"restartCount": 9, "lastState": {"terminated": {"reason": "OOMKilled"}}}
                ]
            ),
            WARNING,
            "restarted 9 times, last reason: OOMKilled",
            id="restarts",
        ),
        pytest.param(muster_pod(containerStatuses="x", conditions=3), None, "", id="odd types"),
    ],
)
def test_pods(pod: Json, want: Severity | None, text: str) -> None:
    found = list(check_pods([pod]))

    assert [one.severity for one in found] == ([] if want is None else [want])
    assert all(text in one.problem and one.action for one in found)


def installed() -> dict[str, Json]:
    found = {}
    for one in copy.deepcopy(definitions()):
        stored = [version["name"] for version in one["spec"]["versions"] if version["storage"]]
        conditions = [{"type": "Established", "status": "True"}]
        one["status"] = {"conditions": conditions, "storedVersions": stored}
        found[one["metadata"]["name"]] = one
    return found


GROUPS = "podgroups.scheduling.muster.dev"


def not_established(one: Json) -> None:
    taken = {"type": "NamesAccepted", "status": "False", "message": "mpg is taken"}
    one["status"]["conditions"] = [taken]


def not_served(one: Json) -> None:
    one["spec"]["versions"][0]["served"] = False


def other_storage(one: Json) -> None:
    for version in one["spec"]["versions"]:
        version["storage"] = not version["storage"]


def lost_version(one: Json) -> None:
    one["status"]["storedVersions"].append("v1alpha0")


def older_stored(one: Json) -> None:
    one["status"]["storedVersions"].append("v1alpha2")


def not_converted(one: Json) -> None:
    one["spec"]["conversion"] = {"strategy": "None"}


@pytest.mark.parametrize(
    ("change", "want", "text"),
    [
        pytest.param(not_established, ERROR, "not established: mpg is taken", id="names are taken"),
        pytest.param(not_served, ERROR, "does not serve", id="a version is missing"),
        pytest.param(
            other_storage, ERROR, "objects are not stored as v1alpha3", id="other storage"
        ),
        pytest.param(lost_version, ERROR, "stored as v1alpha0", id="a stored version is gone"),
        pytest.param(older_stored, INFO, "still be stored as v1alpha2", id="older ones are stored"),
        pytest.param(not_converted, ERROR, "converted by None", id="no conversion"),
    ],
)
def test_definitions(change: Callable[[Json], None], want: Severity, text: str) -> None:
    found = installed()
    change(found[GROUPS])

    (finding,) = check_definitions(found)

    assert (finding.severity, finding.about.name) == (want, GROUPS)
    assert text in finding.problem
    assert finding.action


def test_definitions_as_they_should_be_are_no_findings() -> None:
    assert list(check_definitions(installed())) == []


def test_a_definition_that_is_missing() -> None:
    (finding,) = check_definitions(installed() | {GROUPS: None})

    assert (finding.severity, finding.problem) == (ERROR, "it is not installed")


@pytest.mark.parametrize(
    ("said", "want"),
    [
        pytest.param({"major": "1", "minor": "36", "gitVersion": "v1.36.3"}, INFO, id="new enough"),
        pytest.param({"major": "1", "minor": "29+", "gitVersion": "v1.29.9"}, ERROR, id="too old"),
        pytest.param({"major": 1}, INFO, id="unknown"),
    ],
)
def test_versions(said: Json, want: Severity) -> None:
    (finding,) = check_version(said, "0.1.0")

    assert finding.severity == want


@pytest.mark.parametrize(
    ("minor", "want"),
    [
        pytest.param("36", [], id="the newest has everything"),
        pytest.param("35", ["devices for extended"], id="one release before"),
        pytest.param(
            "33",
            ["pod-level resources", "resource claims", "devices for extended"],
            id="before resource claims",
        ),
        pytest.param(
            "30",
            [
                "matchLabelKeys",
                "managedBy",
                "in-place resize of pods",
                "pod-level resources",
                "resource claims",
                "devices for extended",
            ],
            id="the oldest that is supported",
        ),
    ],
)
def test_what_an_older_kubernetes_lacks_is_noted(minor: str, want: list[str]) -> None:
    *notes, ours = check_version({"major": "1", "minor": minor, "gitVersion": "v1"}, "0.1.0")

    assert ours.problem == "Kubernetes v1, muster doctor 0.1.0"
    assert all(note.severity == INFO and ": " in note.problem for note in notes)
    assert len(notes) == len(want)
    for note, name in zip(notes, want, strict=True):
        assert note.problem.startswith(f"no {name}")


def test_the_configuration_is_that_of_the_processes() -> None:
    written = {"data": {"muster.yaml": "webhook: {certificates: {mounted: /certificates}}"}}

    assert configuration_of(written).webhook.certificates.mounted == "/certificates"
    assert configuration_of({}) == File()
    with pytest.raises(ConfigError, match=r"muster\.yaml"):
        configuration_of({"data": {"muster.yaml": "nonsense: 1"}})


def test_accounts_are_those_of_the_deployments() -> None:
    single = Installation("ns", [deployment("all")])

    assert set(single.accounts) == {"webhook", "controller", "scheduler"}
    assert set(single.accounts.values()) == {"muster-all"}
    assert Installation("ns").accounts["webhook"] == "muster-webhook"
