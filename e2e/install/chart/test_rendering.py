"""The chart renders the objects of `manifests/`, and each value changes exactly its objects."""

import copy
import json
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from api.features import USUAL, Feature
from api.integration.kinds import CREATOR_KINDS, OWNER_KINDS
from api.scheduler_names import SchedulerNames
from cli.config.config import load
from cli.manifests import chart
from cli.uninstall.installation import installed
from e2e.harness import permissions
from e2e.harness.controlplane.places import ROOT
from e2e.harness.support import manifests
from e2e.harness.support.binaries import binary
from e2e.install.chart.helm import CHART, NAMESPACE, RELEASE, Key, Object, is_hook, key, render, run
from tools.release.numbers import semver
from tools.testing.effort import selected
from webhooks.server.registration import load_manifests

PROCESSES = ("webhook", "controller", "scheduler")
KEEP = "helm.sh/resource-policy"
CRD = "CustomResourceDefinition"
CONFIG = ("ConfigMap", NAMESPACE, "muster")
VERSION = yaml.safe_load((CHART / "Chart.yaml").read_text())["appVersion"]


def deployment(name: str) -> Key:
    return "Deployment", NAMESPACE, f"muster-{name}"


def template(obj: Object) -> Object:
    """Return the pod template, or the object itself if it is a pod."""
    found: Object = obj if obj["kind"] == "Pod" else obj["spec"]["template"]
    return found


def of_uninstall(objects: dict[Key, Object]) -> dict[Key, Object]:
    return {it: obj for it, obj in objects.items() if it[2] == "muster-uninstall"}


def kustomized(folder: str) -> dict[Key, Object]:
    command = [str(binary("kubectl")), "kustomize", str(manifests.MANIFESTS / folder)]
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return {key(obj): obj for obj in yaml.safe_load_all(text)}


def plain(found: dict[Key, Object]) -> dict[Key, Object]:
    """Return the objects without Helm's own parts.

    These are hooks, the annotation of kept CRDs, and the checksum of the configuration. There is no
    Namespace either: the installing user creates it.
    """
    objects = {it: copy.deepcopy(obj) for it, obj in found.items() if not is_hook(obj)}
    for (kind, _, _), obj in objects.items():
        if kind == CRD:
            meta = obj["metadata"]
            assert meta["annotations"].pop(KEEP) == "keep"
            if not meta["annotations"]:
                del meta["annotations"]
        if kind == "Deployment":
            meta = template(obj)["metadata"]
            (name,) = meta.pop("annotations")
            assert name == "checksum/config"
    return objects


def differences(one: dict[Key, Object], other: dict[Key, Object]) -> set[Key]:
    return {it for it in one.keys() | other.keys() if one.get(it) != other.get(it)}


def without_namespace(objects: dict[Key, Object]) -> dict[Key, Object]:
    return {it: obj for it, obj in objects.items() if it[0] != "Namespace"}


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("helm")


@pytest.fixture(scope="module")
def defaults(home: Path) -> dict[Key, Object]:
    return render(home)


def test_the_defaults_are_the_base(defaults: dict[Key, Object]) -> None:
    base = {key(obj): obj for obj in manifests.load()}
    ours = plain(defaults)

    assert differences(ours, without_namespace(base)) == set()


def test_with_cert_manager_it_is_the_overlay(home: Path) -> None:
    values = {"certificates": {"provider": "cert-manager"}}
    overlay = kustomized("overlays/cert-manager")

    assert differences(plain(render(home, values)), without_namespace(overlay)) == set()


def test_protection_is_what_the_manifests_have(home: Path, defaults: dict[Key, Object]) -> None:
    wanted = {key(obj): obj for obj in manifests.load(manifests.MANIFESTS / "protection")}
    values = {"networkPolicy": {"enabled": True}, "flowControl": {"enabled": True}}

    found = render(home, values)

    assert {it: found[it] for it in differences(found, defaults)} == wanted


def test_the_console_is_what_the_manifests_have(home: Path, defaults: dict[Key, Object]) -> None:
    wanted = {key(obj): obj for obj in manifests.load(manifests.MANIFESTS / "console")}
    assert not wanted.keys() & (defaults.keys() - {("NetworkPolicy", NAMESPACE, "muster")})

    found = render(home, {"console": {"enabled": True}})

    made = {it: found[it] for it in differences(found, defaults)}
    assert plain(made) == wanted


def test_the_console_has_its_own_values(home: Path) -> None:
    peer = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "proxies"}}}
    hosts = ["console.example.com", "console.example.com:8443"]
    own = {
        "enabled": True,
        "hosts": hosts,
        "tlsSecret": "mine",
        "from": [peer],
        "nodeSelector": {"pool": "system"},
    }
    values = {"console": own, "image": {"pullPolicy": "Always"}, "priorityClassName": "other"}

    found = render(home, values, "batch")

    pod = template(found["Deployment", "batch", "muster-console"])["spec"]
    container = pod["containers"][0]
    assert container["args"][-2:] == [f"--host={host}" for host in hosts]
    assert container["imagePullPolicy"] == "Always"
    assert pod["volumes"][0]["secret"] == {"secretName": "mine"}
    assert pod["nodeSelector"] == {"pool": "system"}
    assert "priorityClassName" not in pod
    policy = found["NetworkPolicy", "batch", "muster-console"]["spec"]["ingress"]
    assert policy[0]["from"] == [peer]
    assert found["ClusterRoleBinding", "", "muster-console"]["subjects"][0]["namespace"] == "batch"


def test_another_namespace_is_everywhere(home: Path, defaults: dict[Key, Object]) -> None:
    """The objects are equal byte for byte: users, subjects, Services, policies, certificates."""
    for values in ({}, {"certificates": {"provider": "cert-manager"}}):
        usual = render(home, values)
        text = json.dumps(list(usual.values())).replace(NAMESPACE, "batch")
        found = render(home, values, "batch")

        assert NAMESPACE not in json.dumps(list(found.values()))
        moved = [without_sum(obj) for obj in found.values()]
        assert moved == [without_sum(obj) for obj in json.loads(text)]


def without_sum(obj: Object) -> Object:
    if obj["kind"] == "Deployment":
        template(obj)["metadata"]["annotations"] = None
    return obj


def changed(home: Path, defaults: dict[Key, Object], values: Object) -> dict[Key, Object]:
    """Return the objects that these values change, add or (None) omit."""
    found = render(home, values)
    return {it: found.get(it, {}) for it in differences(found, defaults)}


DEPLOYMENTS = {deployment(name) for name in PROCESSES}
HOOK = ("Job", NAMESPACE, "muster-uninstall")
TEST = ("Pod", NAMESPACE, "muster-test")
HOOK_CONFIG = ("ConfigMap", NAMESPACE, "muster-uninstall")


@pytest.mark.parametrize("process", PROCESSES)
def test_each_process_has_its_own_values(
    process: str, home: Path, defaults: dict[Key, Object]
) -> None:
    values = {
        "replicas": 3,
        "logLevel": "debug",
        "resources": {"requests": {"cpu": "2"}, "limits": {"memory": "8Gi"}},
        "nodeSelector": {"pool": "system"},
        "tolerations": [{"key": "system", "operator": "Exists"}],
        "affinity": {"nodeAffinity": {}},
    }
    found = changed(home, defaults, {process: values})
    # The hook and the test run where the controller does.
    assert found.keys() - {HOOK, TEST} == {deployment(process)}
    assert ({HOOK, TEST} <= found.keys()) == (process == "controller")

    wanted = copy.deepcopy(defaults[deployment(process)])
    wanted["spec"]["replicas"] = 3
    pod = template(wanted)["spec"]
    pod |= {name: values[name] for name in ("nodeSelector", "tolerations", "affinity")}
    requests = defaults[deployment(process)]["spec"]["template"]["spec"]["containers"][0]
    memory = requests["resources"]["requests"]["memory"]
    pod["containers"][0]["resources"] = {
        "requests": {"cpu": "2", "memory": memory},
        "limits": {"memory": "8Gi"},
    }
    pod["containers"][0]["args"].append("--log-level=debug")
    assert found[deployment(process)] == wanted


@pytest.mark.parametrize(
    ("image", "want"),
    [
        ({"repository": "registry.example/muster"}, f"registry.example/muster:{VERSION}"),
        ({"tag": "edge"}, "muster:edge"),
        ({"tag": "edge", "digest": f"sha256:{'a' * 64}"}, f"muster@sha256:{'a' * 64}"),
    ],
    ids=["another registry", "another tag", "a digest counts before the tag"],
)
def test_the_image_is_everywhere(
    image: Object, want: str, home: Path, defaults: dict[Key, Object]
) -> None:
    found = changed(home, defaults, {"image": image})

    assert found.keys() == {*DEPLOYMENTS, HOOK, TEST}
    images = {template(obj)["spec"]["containers"][0]["image"] for obj in found.values()}
    assert images == {want}


def test_how_pods_are_pulled_and_ranked(home: Path, defaults: dict[Key, Object]) -> None:
    image = {"pullPolicy": "Always", "pullSecrets": [{"name": "registry"}]}
    found = changed(home, defaults, {"image": image, "priorityClassName": ""})

    assert found.keys() == {*DEPLOYMENTS, HOOK, TEST}
    for it, obj in found.items():
        wanted = copy.deepcopy(template(defaults[it]))
        del wanted["spec"]["priorityClassName"]
        wanted["spec"]["imagePullSecrets"] = [{"name": "registry"}]
        wanted["spec"]["containers"][0]["imagePullPolicy"] = "Always"
        assert template(obj) == wanted


def test_the_configuration_is_one_that_the_processes_read(
    home: Path, defaults: dict[Key, Object], tmp_path: Path
) -> None:
    found = changed(
        home,
        defaults,
        {
            "topologyKeys": ["topology.example/rack"],
            "config": {
                "leaderElection": {"leaseSeconds": 30, "renewSeconds": 20},
                "scheduler": {"bindWorkers": 200, "starvation": {"enabled": True}},
                "webhook": {"certificates": {"caDays": 1000}, "drainSeconds": 1.5},
            },
        },
    )
    # Pods that read it are restarted.
    assert found.keys() == {CONFIG, HOOK_CONFIG, *DEPLOYMENTS}
    assert found[HOOK_CONFIG]["data"] == found[CONFIG]["data"]
    assert all(
        {**template(obj), "metadata": None} == {**template(defaults[it]), "metadata": None}
        for it, obj in found.items()
        if it in DEPLOYMENTS
    )
    file = tmp_path / "muster.yaml"
    file.write_text(found[CONFIG]["data"]["muster.yaml"])
    read = load(file)
    assert read.webhook.autoscalers.topology_keys == ("topology.example/rack",)
    assert read.webhook.certificates.ca_days == 1000
    assert read.scheduler.bind_workers == 200
    assert read.leader_election.lease_seconds == 30


def test_scheduler_names_are_in_configuration_and_registration(
    home: Path, defaults: dict[Key, Object], tmp_path: Path
) -> None:
    names = SchedulerNames(("muster-scheduler", "muster-spread"))
    profiles = [
        {"schedulerName": "muster-scheduler"},
        {"schedulerName": "muster-spread", "scoring": "spread", "podScoring": "pack"},
    ]
    found = changed(home, defaults, {"profiles": profiles})
    registered = {key(obj): obj for obj in load_manifests(names)}

    assert found.keys() == {CONFIG, HOOK_CONFIG, *DEPLOYMENTS, *registered}
    assert {it: found[it] for it in registered} == registered
    file = tmp_path / "muster.yaml"
    file.write_text(found[CONFIG]["data"]["muster.yaml"])
    assert load(file).scheduler_names == names
    assert load(file).scoring["muster-spread"] == ("spread", "pack")


def test_feature_gates_are_in_the_configuration(
    home: Path, defaults: dict[Key, Object], tmp_path: Path
) -> None:
    found = changed(home, defaults, {"featureGates": {"Coscheduling": False}})

    assert found.keys() == {CONFIG, HOOK_CONFIG, *DEPLOYMENTS}
    file = tmp_path / "muster.yaml"
    file.write_text(found[CONFIG]["data"]["muster.yaml"])
    assert load(file).gates == USUAL.without(Feature.COSCHEDULING)


def test_an_issuer_of_the_cluster_takes_the_place_of_ours(home: Path) -> None:
    issuer = {"name": "company", "kind": "ClusterIssuer"}
    own = render(home, {"certificates": {"provider": "cert-manager"}})
    found = render(home, {"certificates": {"provider": "cert-manager", "issuerRef": issuer}})

    certificate = ("Certificate", NAMESPACE, "muster-webhook")
    assert differences(own, found) == {
        certificate,
        ("Certificate", NAMESPACE, "muster-webhook-ca"),
        ("Issuer", NAMESPACE, "muster-self-signed"),
        ("Issuer", NAMESPACE, "muster-webhook"),
    }
    assert found[certificate]["spec"]["issuerRef"] == issuer


@pytest.mark.parametrize("keep", [True, False])
def test_kinds_stay_unless_told_otherwise(keep: bool, home: Path) -> None:
    found = render(home, {"crds": {"keep": keep}})
    marks = {
        (obj["metadata"].get("annotations") or {}).get(KEEP)
        for it, obj in found.items()
        if it[0] == CRD
    }

    assert marks == {"keep" if keep else None}


def test_without_kinds_nothing_else_changes(home: Path, defaults: dict[Key, Object]) -> None:
    found = changed(home, defaults, {"crds": {"install": False}})

    assert found.keys() == {it for it in defaults if it[0] == CRD}


def test_a_service_monitor_finds_the_metrics(home: Path, defaults: dict[Key, Object]) -> None:
    monitor = {"enabled": True, "interval": "10s", "labels": {"release": "prometheus"}}
    found = changed(home, defaults, {"metrics": {"serviceMonitor": monitor}})

    (made,) = found.values()
    assert made["metadata"]["labels"]["release"] == "prometheus"
    assert made["spec"]["endpoints"][0] == {
        "port": "metrics",
        "path": "/metrics",
        "interval": "10s",
    }
    wanted = made["spec"]["selector"]["matchLabels"].items()
    services = {it: obj for it, obj in defaults.items() if it[0] == "Service"}
    selected = [
        it[2] for it, obj in services.items() if wanted <= obj["metadata"]["labels"].items()
    ]
    assert selected == ["muster-metrics"]


def test_who_may_reach_the_webhook_is_for_the_administrator(home: Path) -> None:
    peer = {"podSelector": {"matchLabels": {"k8s-app": "konnectivity-agent"}}}
    values = {
        "enabled": True,
        "podNetworks": ["10.244.0.0/16", "fd00:10:244::/48"],
        "webhookFrom": [peer],
        "metricsFrom": [],
    }
    found = render(home, {"networkPolicy": values})

    (rule,) = found["NetworkPolicy", NAMESPACE, "muster-webhook"]["spec"]["ingress"]
    assert rule["from"] == [
        {"ipBlock": {"cidr": "0.0.0.0/0", "except": ["10.244.0.0/16"]}},
        {"ipBlock": {"cidr": "::/0", "except": ["fd00:10:244::/48"]}},
        peer,
    ]
    assert rule["ports"] == [{"port": 9443, "protocol": "TCP"}]
    assert "ingress" not in found["NetworkPolicy", NAMESPACE, "muster"]["spec"]


ANNOTATED = (*(it.kind for it in OWNER_KINDS.values()), *CREATOR_KINDS)
"""Kinds with the annotation `waiting-for`, which nothing updates after the removal."""


def test_the_hook_may_do_little_and_more_only_to_hand_over(
    home: Path, defaults: dict[Key, Object]
) -> None:
    def rights(values: Object) -> set[str]:
        objects = [*of_uninstall(render(home, values)).values()]
        return {str(it) for it in permissions.given(objects)}

    hooks = {it[2] for it, obj in defaults.items() if is_hook(obj)}
    assert hooks == {"muster-uninstall", "muster-test"}
    few, more = rights({}), rights({"uninstall": {"release": True}})
    assert few < more
    written = {it for it in few if it.split()[1] not in {"get", "list"}}
    assert {it.removeprefix("muster-uninstall: ") for it in written} == {
        "create subjectaccessreviews.authorization.k8s.io",
        "delete clusterrolebindings.rbac.authorization.k8s.io",
        "delete deployments.apps",
        "delete leases.coordination.k8s.io",
        "delete mutatingwebhookconfigurations.admissionregistration.k8s.io",
        "delete rolebindings.rbac.authorization.k8s.io",
        "delete validatingwebhookconfigurations.admissionregistration.k8s.io",
        "patch customresourcedefinitions.apiextensions.k8s.io",
        "patch replicasets.apps",
        *(f"patch {it.plural}.{it.group}" for it in ANNOTATED),
        *(
            f"patch {kind}.{group}"
            for kind in ("compositepodgroups", "podgroups", "reservations", "workloads")
            for group in ("scheduling.muster.dev", "coscheduling.muster.dev")
        ),
    }
    assert "muster-uninstall: create jobs.batch" in more - few
    found = changed(home, defaults, {"uninstall": {"hook": False}})
    assert found.keys() == of_uninstall(defaults).keys()


def test_the_hook_may_read_and_delete_each_binding(defaults: dict[Key, Object]) -> None:
    """`muster uninstall` ends at the first one that it may not read."""
    rules = [rule for obj in of_uninstall(defaults).values() for rule in obj.get("rules", ())]
    may = {
        (resource, name)
        for rule in rules
        if {"delete", "get"} <= {*rule["verbs"]}
        for resource in rule["resources"]
        for name in rule.get("resourceNames", ())
    }

    items = [it for it in installed(NAMESPACE) if it.kind.endswith("RoleBinding")]
    assert {(f"{it.kind.lower()}s", it.name) for it in items} <= may


def test_the_test_may_create_groups_in_its_namespace_alone(
    home: Path, defaults: dict[Key, Object]
) -> None:
    objects = [obj for it, obj in defaults.items() if it[2] == TEST[2]]

    assert {str(it) for it in permissions.given(objects)} == {
        f"muster-test: create {kind}.{group}"
        for kind in ("podgroups", "workloads")
        for group in ("scheduling.muster.dev", "coscheduling.muster.dev")
    }
    assert not [obj for obj in objects if obj["kind"].startswith("Cluster")]
    assert TEST not in render(home, {"namespaceSelector": {"matchLabels": {"muster": "on"}}})


def test_the_hook_names_its_release_and_every_option_exists(home: Path) -> None:
    for values in ({}, {"uninstall": {"release": True}}):
        hook = render(home, values)["Job", NAMESPACE, "muster-uninstall"]
        (container,) = template(hook)["spec"]["containers"]
        command = [sys.executable, "-m", "cli", *container["args"], "--help"]

        assert f"--helm-release={RELEASE}:1" in container["args"]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr


REFUSED: dict[str, tuple[Any, str]] = {
    "a value that is not known": ({"replica": 3}, "replica"),
    "no replicas": ({"webhook": {"replicas": 0}}, "/webhook/replicas"),
    "a digest that is none": ({"image": {"digest": "sha256:abc"}}, "/image/digest"),
    "an image with its tag": ({"image": {"repository": "muster:1 x"}}, "/image/repository"),
    "a feature gate that is not known": ({"featureGates": {"Topology": False}}, "/featureGates"),
    "a feature gate that is no bool": (
        {"featureGates": {"Coscheduling": "off"}},
        "/featureGates/Coscheduling",
    ),
    "nine names": ({"profiles": [{"schedulerName": f"n{n}"} for n in range(9)]}, "/profiles"),
    "kube-scheduler's name": (
        {"profiles": [{"schedulerName": "default-scheduler"}]},
        "/profiles/0/schedulerName",
    ),
    "a name that breaks out of the condition": (
        {"profiles": [{"schedulerName": "x'] || true || 'y' in ['"}]},
        "/profiles/0/schedulerName",
    ),
    "one name twice": (
        {
            "profiles": [
                {"schedulerName": "a", "scoring": "pack"},
                {"schedulerName": "a", "scoring": "spread"},
            ]
        },
        "profiles: each schedulerName may be there once",
    ),
    "a namespace's label that breaks out of the condition": (
        {"namespaceSelector": {"matchLabels": {"team": "a' || true || 'a' == 'a"}}},
        "/namespaceSelector/matchLabels/team",
    ),
    "an operator without values": (
        {"namespaceSelector": {"matchExpressions": [{"key": "team", "operator": "In"}]}},
        "/namespaceSelector/matchExpressions/0",
    ),
    "a field of the configuration that is not known": (
        {"config": {"scheduler": {"bindWorker": 1}}},
        "/config/scheduler",
    ),
    "a field of the configuration that is the chart's": (
        {"config": {"namespace": "other"}},
        "/config",
    ),
    "a number of the configuration out of its range": (
        {"config": {"scheduler": {"bindWorkers": 0}}},
        "/config/scheduler/bindWorkers",
    ),
    "an issuer that nobody asks": (
        {"certificates": {"issuerRef": {"name": "company"}}},
        "/certificates/issuerRef",
    ),
    "a network that is none": (
        {"networkPolicy": {"podNetworks": ["10.0.0.0"]}},
        "/networkPolicy/podNetworks/0",
    ),
    "a topology key that is no label": ({"topologyKeys": ["a b"]}, "/topologyKeys/0"),
    "an amount that is none": (
        {"scheduler": {"resources": {"requests": {"cpu": "much"}}}},
        "/scheduler/resources/requests/cpu",
    ),
}


SHORT = {
    "a value that is not known",
    "a digest that is none",
    "a name that breaks out of the condition",
    "one name twice",
    "a field of the configuration that is not known",
    "a number of the configuration out of its range",
}


@pytest.mark.parametrize("case", selected({it: it for it in REFUSED}, SHORT))
def test_a_wrong_value_is_refused_by_its_name(case: str, home: Path) -> None:
    values, named = REFUSED[case]
    done = run("template", RELEASE, str(CHART), values=values, home=home)

    assert done.returncode != 0
    # The path of the value, as JSON pointers or with dots.
    said = done.stderr.replace(".", "/")
    assert named.replace(".", "/") in said, done.stderr


LINTED: dict[str, Any] = {
    "defaults": {},
    "everything": {
        "profiles": [{"schedulerName": "muster-scheduler"}, {"schedulerName": "b"}],
        "topologyKeys": ["example.com/rack"],
        "namespaceSelector": {
            "matchLabels": {"muster": "on"},
            "matchExpressions": [
                {"key": "team", "operator": "In", "values": ["a", "b"]},
                {"key": "retired", "operator": "DoesNotExist"},
            ],
        },
        "certificates": {"provider": "cert-manager"},
        "metrics": {"serviceMonitor": {"enabled": True}},
        "networkPolicy": {"enabled": True},
        "flowControl": {"enabled": True},
        "uninstall": {"release": True},
        "global": {"of": "a parent"},
    },
    "nothing": {
        "crds": {"install": False},
        "uninstall": {"hook": False},
        "webhook": {"resources": None},
    },
}


@pytest.mark.parametrize("case", selected({it: it for it in LINTED}, {"everything"}))
def test_helm_finds_nothing_to_complain_of(case: str, home: Path) -> None:
    done = run("lint", str(CHART), "--strict", values=LINTED[case], home=home)

    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("case", selected({it: it for it in LINTED}, {"everything"}))
def test_muster_uninstall_knows_every_object(case: str, home: Path) -> None:
    """A remaining object, a policy for instance, would reject requests of users."""
    known = {(it.kind, it.namespace, it.name) for it in installed()}
    rendered = {it for it, obj in render(home, LINTED[case]).items() if not is_hook(obj)}

    assert rendered <= known


def test_the_version_is_the_project_s() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    about = yaml.safe_load((CHART / "Chart.yaml").read_text())

    assert about["appVersion"] == project["version"]
    assert about["version"] == semver(project["version"])


def test_every_manifest_is_in_the_chart_or_has_its_template() -> None:
    copied = {str(path.relative_to(chart.MANIFESTS)) for path in chart.sources()}

    assert all((chart.MANIFESTS / name).is_file() for name in chart.BY_TEMPLATE)
    for name in copied:
        assert (CHART / "files" / name).read_bytes() == (chart.MANIFESTS / name).read_bytes()
    assert {str(path.relative_to(CHART / "files")) for path in CHART.glob("files/*/*")} == copied
