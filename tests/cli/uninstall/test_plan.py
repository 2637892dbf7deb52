"""The order of the steps, and the objects in use."""

from dataclasses import replace
from typing import Any

import pytest
import yaml

from api.constants import ANNOTATION_WAITING_FOR, DEPLOYMENT, FINALIZER_POD_GROUP, STATEFUL_SET
from api.scheduler_names import SchedulerNames
from cli.uninstall.command import HelmRelease, dry_run_lines, kept_lines, refusal_lines
from cli.uninstall.installation import NAMESPACE, installed
from cli.uninstall.plan import Action, RemovalStage, RemovalState, Step, in_use, plan
from cli.uninstall.release import Target, target_of
from e2e.harness.support import manifests
from kube.base.errors import ConfigError
from kube.client.resources import CRDS, SECRETS, Resource
from tests.cli.uninstall.objects import RUNNING, gang, stored
from tests.support.apps import make_app
from tests.support.builders import make_pod
from tests.support.lws import make_lws

Json = dict[str, Any]

ALL = [*manifests.load(), *manifests.load(manifests.MANIFESTS / "protection")]
CERTIFICATES = manifests.MANIFESTS / "overlays" / "cert-manager" / "certificate.yaml"
GROUPS = Resource("scheduling.muster.dev", "v1alpha3", "podgroups", "PodGroup")

_SETS: list[tuple[str, dict[str, str]]] = [("told", {"waiting_for": "room"}), ("plain", {})]


def target(obj: Json) -> Target:
    group, _, version = obj["apiVersion"].rpartition("/")
    kind = obj["kind"]
    resource = CRDS if kind == CRDS.kind else Resource(group, version, "some", kind)
    return target_of(resource, obj)


def whole(**parts: Any) -> RemovalState:
    """Return a cluster with all of the manifests."""
    return replace(RemovalState(installed=[(target(obj), obj) for obj in ALL]), **parts)


def group(*finalizers: str) -> tuple[Target, Json]:
    obj: Json = {"metadata": {"name": "pg", "namespace": "team", "finalizers": [*finalizers]}}
    return target_of(GROUPS, obj), obj


def position(steps: list[Step], action: Action, kind: str) -> int:
    return next(
        number
        for number, step in enumerate(steps)
        if step.action is action and step.target.resource.kind == kind
    )


def test_no_step_waits_for_a_later_one() -> None:
    found = whole(groups=[group(FINALIZER_POD_GROUP)], jobs=[stored(gang())])
    steps = plan(found, release=True)

    order = [
        position(steps, Action.DELETE, "MutatingWebhookConfiguration"),
        position(steps, Action.STOP_CONVERSION, "CustomResourceDefinition"),
        position(steps, Action.DELETE, "Deployment"),
        position(steps, Action.DELETE, "ClusterRoleBinding"),
        position(steps, Action.HAND_OVER, "Job"),
        position(steps, Action.DROP_FINALIZERS, "PodGroup"),
        position(steps, Action.DELETE, "CustomResourceDefinition"),
        position(steps, Action.DELETE, "ServiceAccount"),
        position(steps, Action.DELETE, "Namespace"),
    ]
    assert order == sorted(order)
    assert order[-1] == len(steps) - 1


def test_everything_that_the_manifests_install_is_deleted_once() -> None:
    steps = plan(whole(), release=False)
    deleted = [step.target for step in steps if step.action is Action.DELETE]

    assert sorted(map(str, deleted)) == sorted(str(target(obj)) for obj in ALL)


def test_everything_that_is_in_the_manifests_is_known() -> None:
    objects = [*ALL, *yaml.safe_load_all(CERTIFICATES.read_text()), *monitoring()]
    found = {(it.kind, it.namespace, it.name) for it in installed()}

    assert {
        (obj["kind"], obj["metadata"].get("namespace", ""), obj["metadata"]["name"])
        for obj in objects
    } <= found
    assert not {it for it in found if it[0] == "ResourceQuota"}


def monitoring() -> list[Json]:
    """Return the objects of the monitoring manifests as kustomize generates them."""
    folder = manifests.MANIFESTS / "monitoring"
    (made,) = yaml.safe_load((folder / "kustomization.yaml").read_text())["configMapGenerator"]
    objects = [
        yaml.safe_load((folder / name).read_text())
        for name in ("service-monitor.yaml", "prometheus-rule.yaml")
    ]
    objects.append({"kind": "ConfigMap", "metadata": {"name": made["name"]}})
    return [it | {"metadata": it["metadata"] | {"namespace": NAMESPACE}} for it in objects]


def test_another_namespace_is_used_everywhere() -> None:
    found = installed("batch")

    assert {it.namespace for it in found} == {"", "batch"}
    assert [it.name for it in found if it.kind == "Namespace"] == ["batch"]
    assert {it.namespace for it in installed()} == {"", NAMESPACE}


def test_cluster_wide_objects_of_our_names_are_ours_by_their_label_only() -> None:
    wide = {it.kind: it.labelled for it in installed() if not it.namespace}

    assert not wide.pop("CustomResourceDefinition")
    assert all(wide.values())


def test_what_is_done_is_not_planned_again() -> None:
    assert plan(RemovalState(groups=[group("example.com/other")]), release=True) == []


def test_what_is_on_its_way_out_is_not_deleted_again() -> None:
    crd = {"metadata": {"name": "x", "deletionTimestamp": "2026-01-01T00:00:00Z"}}

    assert plan(RemovalState(installed=[(target_of(CRDS, crd), crd)]), release=False) == []


def test_nothing_is_handed_over_unasked_but_what_was_begun_is_ended() -> None:
    record = Target(SECRETS, NAMESPACE, "muster-released-uid", "secret")
    steps = plan(RemovalState(jobs=[stored(gang())], records=[record]), release=False)

    assert [(step.stage, step.action) for step in steps] == [(RemovalStage.RELEASE, Action.RESTORE)]


def test_the_namespace_stays_while_others_have_objects_in_it() -> None:
    theirs = Target(SECRETS, NAMESPACE, "theirs", "uid")
    found = whole(foreign=[theirs])

    assert "Namespace" not in {step.target.resource.kind for step in plan(found, release=False)}
    assert list(kept_lines(found, NAMESPACE)) == [
        "Muster's namespace is kept, because it has other objects:",
        "  Secret muster-system/theirs",
        "  kubectl delete namespace muster-system",
    ]


def test_quotas_of_users_stay_and_are_named() -> None:
    quota = Target(Resource("", "v1", "resourcequotas", "ResourceQuota"), "team", "groups", "uid")

    assert "  kubectl -n team delete resourcequota groups" in list(
        kept_lines(RemovalState(quotas=[quota]), NAMESPACE)
    )


def test_use_is_counted_by_namespace() -> None:
    pods = [
        RUNNING,
        make_pod("a", "team").in_group("g").build(),
        make_pod("b", "team").in_group("g").build(),
        make_pod("c", "else").in_group("g").build(),
        make_pod("done", "over").in_group("g").phase("Succeeded").build(),
    ]
    uses = in_use(RemovalState(pods=pods, jobs=[stored(gang())]))

    assert {name: str(use) for name, use in uses.items()} == {
        "else": "1 group, 0 running pods, 1 waiting pod, 0 unfinished Jobs",
        "team": "1 group, 1 running pod, 2 waiting pods, 1 unfinished Job",
    }


def test_a_refusal_of_many_namespaces_is_short() -> None:
    pods = [make_pod("a", f"team-{number}").build() for number in range(50)]

    lines = list(refusal_lines(in_use(RemovalState(pods=pods))))

    assert lines[0] == "Muster is in use in 50 namespaces; nothing was deleted:"
    assert "  and 30 more namespaces" in lines
    assert len(lines) == 24


def test_a_refusal_of_helm_s_hook_names_helm_s_commands_in_their_order() -> None:
    """Helm has no flag --release, and upgrades no release that it was uninstalling."""
    helm = HelmRelease.parse("gangs:7", "batch")
    pods = [make_pod("a", "team").build()]

    lines = list(refusal_lines(in_use(RemovalState(pods=pods)), helm))

    assert not [line for line in lines if "--release" in line]
    commands = [line.strip() for line in lines if line.startswith("  helm ")]
    assert commands[0] == "helm rollback gangs 7 --namespace batch"  # to keep it
    assert commands[1:] == [
        "helm rollback gangs 7 --namespace batch",
        "helm upgrade gangs CHART --namespace batch --reuse-values --set uninstall.release=true",
        "helm uninstall gangs --namespace batch",
    ]


@pytest.mark.parametrize("text", ["muster", ":1", "muster:", "muster:x"])
def test_a_release_has_a_name_and_a_revision(text: str) -> None:
    with pytest.raises(ConfigError, match="NAME:REVISION"):
        HelmRelease.parse(text, "batch")


def test_a_dry_run_names_steps_and_counts_small_ones() -> None:
    groups = [group(FINALIZER_POD_GROUP)] * 3
    lines = list(dry_run_lines(RemovalState(groups=groups), release=True))

    assert lines == ["steps, in this order:", "  remove Muster's finalizer from 3 objects"]


def test_a_dry_run_of_a_job_that_is_left_prints_the_command() -> None:
    lines = "\n".join(dry_run_lines(RemovalState(jobs=[stored(gang(), ready=2)]), release=True))

    assert "Job team/train: its pods have started" in lines
    assert "kubectl -n team get job train -o json" in lines


def test_nothing_to_do_is_said() -> None:
    assert list(dry_run_lines(RemovalState(), release=False)) == ["no objects of Muster found"]


def test_a_namespace_with_thousands_of_pods_hides_no_other() -> None:
    pods = [make_pod(f"p{number}", "greedy").build() for number in range(5000)]
    found = RemovalState(pods=[*pods, make_pod("one", "modest").build()])

    lines = list(dry_run_lines(found, release=True))

    assert "  Pod modest/one: no controller recreates it" in lines
    assert "  and 4980 more in namespace greedy" in lines
    assert len(lines) < 60


def test_what_is_prepared_leaves_the_rest_to_who_installed_it() -> None:
    lease = Resource("coordination.k8s.io", "v1", "leases", "Lease")
    ours = [(target(obj), obj) for obj in ALL]
    ours.append((Target(lease, NAMESPACE, "muster-scheduler", "uid"), {}))
    found = RemovalState(installed=ours, groups=[group(FINALIZER_POD_GROUP)])
    steps = plan(found, release=False, prepare=True)
    deleted = {step.target.resource.kind for step in steps if step.action is Action.DELETE}

    assert deleted == {
        "MutatingWebhookConfiguration",
        "ValidatingWebhookConfiguration",
        "Deployment",
        "ClusterRoleBinding",
        "RoleBinding",
        "Lease",
    }
    # Steps that would be impossible later are done: kept kinds can be read, and objects deleted.
    actions = {step.action for step in steps}
    assert {Action.STOP_CONVERSION, Action.DROP_FINALIZERS} <= actions


def test_pods_of_every_configured_name_are_in_use() -> None:
    named = SchedulerNames(("muster-scheduler", "other"))
    job = stored(gang())
    job["spec"]["template"]["spec"]["schedulerName"] = "other"
    found = RemovalState(jobs=[job])

    assert in_use(found) == {}
    assert set(in_use(replace(found, names=named))) == {"team"}
    (steps,) = [plan(replace(found, names=named), release=True)]
    assert [step.action for step in steps] == [Action.HAND_OVER]


def test_what_it_waited_for_is_no_longer_said_of_other_owners() -> None:
    sets = [make_lws(name).asks(**words).build() for name, words in _SETS]
    kinds = (STATEFUL_SET, DEPLOYMENT)
    apps = [make_app(kind, name, 4, words) for name, words in _SETS for kind in kinds]

    steps = plan(RemovalState(annotated=[(target(it), it) for it in (*sets, *apps)]), release=False)

    assert {(it.action, it.target.resource.kind, it.target.name, it.names) for it in steps} == {
        (Action.DROP_ANNOTATIONS, kind, "told", (ANNOTATION_WAITING_FOR,))
        for kind in ("LeaderWorkerSet", "StatefulSet", "Deployment")
    }
