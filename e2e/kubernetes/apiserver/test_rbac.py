"""Authorization by roles: allowed requests, and the messages of denied ones."""

from typing import Any

import pytest

from e2e.harness.support.rest import APPLY_PATCH, Answer, Rest
from e2e.harness.support.waiting import eventually
from e2e.kubernetes.apiserver.accounts import RBAC, Account, rule
from e2e.kubernetes.apiserver.objects import Namespace, binding, causes, config_map, job, owner, pod

Object = dict[str, Any]


def refused(answer: Answer) -> str:
    status = answer.expect(403)
    assert status["reason"] == "Forbidden"
    message: str = status["message"]
    return message


async def test_an_account_is_who_its_token_says(account: Account) -> None:
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    path = "/apis/authentication.k8s.io/v1/selfsubjectreviews"

    who = (await account.rest.post(path, review)).expect(201)["status"]["userInfo"]

    assert who["username"] == account.user
    assert set(who["groups"]) == {
        "system:serviceaccounts",
        f"system:serviceaccounts:{account.ns.name}",
        "system:authenticated",
    }


@pytest.mark.parametrize(
    ("method", "path", "said"),
    [
        (
            "GET",
            "/api/v1/namespaces/{ns}/configmaps/a",
            (
                'configmaps "a" is forbidden: User "{user}" cannot get resource "configmaps"'
                ' in API group "" in the namespace "{ns}"'
            ),
        ),
        (
            "GET",
            "/api/v1/configmaps",
            (
                'configmaps is forbidden: User "{user}" cannot list resource "configmaps"'
                ' in API group "" at the cluster scope'
            ),
        ),
        (
            "GET",
            "/apis/batch/v1/namespaces/{ns}/jobs?watch=true",
            (
                'jobs.batch is forbidden: User "{user}" cannot watch resource "jobs"'
                ' in API group "batch" in the namespace "{ns}"'
            ),
        ),
        (
            "DELETE",
            "/apis/batch/v1/namespaces/{ns}/jobs",
            (
                'jobs.batch is forbidden: User "{user}" cannot deletecollection resource "jobs"'
                ' in API group "batch" in the namespace "{ns}"'
            ),
        ),
        (
            "POST",
            "/api/v1/namespaces/{ns}/pods/a/binding",
            (
                'pods "a" is forbidden: User "{user}" cannot create resource "pods/binding"'
                ' in API group "" in the namespace "{ns}"'
            ),
        ),
        (
            "PATCH",
            "/api/v1/nodes/n/status",
            (
                'nodes "n" is forbidden: User "{user}" cannot patch resource "nodes/status"'
                ' in API group "" at the cluster scope'
            ),
        ),
        (
            "GET",
            "/api/v1/namespaces/{ns}",
            (
                'namespaces "{ns}" is forbidden: User "{user}" cannot get resource "namespaces"'
                ' in API group "" in the namespace "{ns}"'
            ),
        ),
        (
            "PUT",
            "/apis/nothing.example.com/v1/namespaces/{ns}/unknown/x",
            (
                'unknown.nothing.example.com "x" is forbidden: User "{user}" cannot update resource'
                ' "unknown" in API group "nothing.example.com" in the namespace "{ns}"'
            ),
        ),
        ("GET", "/metrics", 'forbidden: User "{user}" cannot get path "/metrics"'),
    ],
    ids=lambda value: value.partition("?")[0] if value.startswith("/") else None,
)
async def test_what_no_role_gives_is_refused(
    account: Account, method: str, path: str, said: str
) -> None:
    answer = await account.rest.call(method, path.format(ns=account.ns.name), {})

    assert refused(answer) == said.format(user=account.user, ns=account.ns.name)


async def test_a_refusal_has_the_details_of_the_resource(account: Account) -> None:
    status = (await account.rest.get(account.ns.jobs("a"))).expect(403)

    assert status["details"] == {"name": "a", "group": "batch", "kind": "jobs"}


async def test_everybody_may_see_what_is_served(account: Account) -> None:
    for path in ("/api", "/apis", "/apis/batch/v1", "/openapi/v3", "/version", "/readyz"):
        assert (await account.rest.get(path)).status == 200


async def test_a_role_gives_its_verbs_in_its_namespace(account: Account, rest: Rest) -> None:
    await account.may(rule("", "configmaps", "create", "get"))
    maps = account.ns.config_maps()
    await eventually(lambda: account.allowed(f"{maps}/a"), "the role to be in force")

    (await account.rest.post(maps, config_map("a"))).expect(201)
    (await account.rest.get(f"{maps}/a")).expect(200)

    refused(await account.rest.get(maps))
    refused(await account.rest.patch(f"{maps}/a", {"data": {"k": "2"}}))
    refused(await account.rest.get("/api/v1/namespaces/default/configmaps/a"))


async def test_a_cluster_role_gives_its_verbs_everywhere(account: Account) -> None:
    await account.may_everywhere(rule("", "configmaps", "list"), rule("", "nodes", "get"))
    await eventually(lambda: account.allowed("/api/v1/configmaps"), "the role to be in force")

    (await account.rest.get("/api/v1/namespaces/kube-system/configmaps")).expect(200)
    (await account.rest.get("/api/v1/nodes/nowhere")).expect(404)


async def test_a_cluster_role_may_be_bound_in_one_namespace(account: Account) -> None:
    name = await account.cluster_role(rule("", "configmaps", "list"))
    await account.bind("rolebindings", "ClusterRole", name)
    await eventually(lambda: account.allowed(account.ns.config_maps()), "the role to be in force")

    refused(await account.rest.get("/api/v1/configmaps"))


@pytest.mark.parametrize("kind", ["User", "Group"])
async def test_users_and_groups_are_subjects_too(account: Account, kind: str) -> None:
    name = account.user if kind == "User" else f"system:serviceaccounts:{account.ns.name}"
    subject = {"apiGroup": RBAC, "kind": kind, "name": name}
    await account.may(rule("", "configmaps", "list"), subject=subject)

    await eventually(lambda: account.allowed(account.ns.config_maps()), "the role to be in force")


async def test_a_rule_may_name_its_objects(account: Account) -> None:
    await account.may(rule("", "configmaps", "get", "list", "watch", "update", names=("a",)))
    await eventually(
        lambda: account.allowed(account.ns.config_maps("a")), "the role to be in force"
    )

    refused(await account.rest.get(account.ns.config_maps("b")))
    refused(await account.rest.get(account.ns.config_maps()))
    # A list of one object by its name is authorized for that object.
    only = {"fieldSelector": "metadata.name=a"}
    (await account.rest.get(account.ns.config_maps(), params=only)).expect(200)


async def test_a_resource_is_not_its_sub_resources(account: Account, rest: Rest) -> None:
    (await rest.post(account.ns.pods(), pod("a"))).expect(201)
    await account.may(rule("", "pods", "get", "patch"), rule("", "*/binding", "create"))
    await eventually(lambda: account.allowed(account.ns.pods("a")), "the role to be in force")

    refused(await account.rest.patch(f"{account.ns.pods('a')}/status", {"status": {}}))
    bound = await account.rest.post(f"{account.ns.pods('a')}/binding", binding("a", "nowhere"))
    assert bound.status != 403


async def test_a_star_is_everything(account: Account) -> None:
    await account.may(rule("*", "*", "*"))
    await eventually(lambda: account.allowed(account.ns.config_maps()), "the role to be in force")

    (await account.rest.post(account.ns.jobs(), job("a"))).expect(201)
    (await account.rest.patch(f"{account.ns.jobs('a')}/status", {"status": {}})).expect(200)


async def test_apply_needs_the_right_to_create(account: Account) -> None:
    await account.may(rule("", "configmaps", "get", "patch"))
    await eventually(
        lambda: account.allowed(account.ns.config_maps("a")), "the role to be in force"
    )
    params = {"fieldManager": "account"}

    refused(
        await account.rest.patch(
            account.ns.config_maps("a"), config_map("a"), APPLY_PATCH, params=params
        )
    )


async def test_a_missing_role_is_named(account: Account) -> None:
    await account.bind("rolebindings", "ClusterRole", "absent-role")
    said = 'RBAC: clusterrole.rbac.authorization.k8s.io "absent-role" not found'

    async def names_it() -> bool:
        return refused(await account.rest.get(account.ns.config_maps())).endswith(said)

    await eventually(names_it, "the binding to be in force")


async def test_what_is_taken_back_is_refused_again(account: Account, rest: Rest) -> None:
    await account.may(rule("", "configmaps", "list"))
    maps = account.ns.config_maps()
    await eventually(lambda: account.allowed(maps), "the role to be in force")
    path = account.ns.path(f"{RBAC}/v1", "rolebindings")
    for item in (await rest.get(path)).ok()["items"]:
        await rest.delete(f"{path}/{item['metadata']['name']}")

    async def forbidden() -> bool:
        return not await account.allowed(maps)

    await eventually(forbidden, "the role to be gone")


async def test_a_binding_keeps_its_role(account: Account, rest: Rest) -> None:
    await account.may(rule("", "configmaps", "list"))
    path = account.ns.path(f"{RBAC}/v1", "rolebindings")
    (item,) = (await rest.get(path)).ok()["items"]

    changed = {"roleRef": {**item["roleRef"], "name": "another"}}
    status = (await rest.patch(f"{path}/{item['metadata']['name']}", changed)).expect(422)

    assert causes(status) == {("FieldValueInvalid", "roleRef")}


async def test_access_reviews_tell_the_truth(account: Account, rest: Rest) -> None:
    await account.may(rule("", "configmaps", "list"))
    await eventually(lambda: account.allowed(account.ns.config_maps()), "the role to be in force")
    path = "/apis/authorization.k8s.io/v1"
    kind = {"apiVersion": "authorization.k8s.io/v1"}
    found = {}
    for verb in ("list", "delete"):
        about = {"namespace": account.ns.name, "verb": verb, "resource": "configmaps"}
        mine = {**kind, "kind": "SelfSubjectAccessReview", "spec": {"resourceAttributes": about}}
        other = {
            **kind,
            "kind": "SubjectAccessReview",
            "spec": {"resourceAttributes": about, "user": account.user},
        }
        own = (await account.rest.post(f"{path}/selfsubjectaccessreviews", mine)).expect(201)
        told = (await rest.post(f"{path}/subjectaccessreviews", other)).expect(201)
        found[verb] = (own["status"]["allowed"], told["status"]["allowed"])
    spec = {"namespace": account.ns.name}
    rules = {**kind, "kind": "SelfSubjectRulesReview", "spec": spec}
    given = (await account.rest.post(f"{path}/selfsubjectrulesreviews", rules)).expect(201)

    assert found == {"list": (True, True), "delete": (False, False)}
    assert ["list"] in [
        one["verbs"]
        for one in given["status"]["resourceRules"]
        if one.get("resources") == ["configmaps"]
    ]


@pytest.mark.parametrize("permitted", [False, True])
async def test_who_blocks_an_owner_must_have_a_say_about_its_finalizers(
    account: Account, rest: Rest, permitted: bool
) -> None:
    parent = (await rest.post(account.ns.jobs(), job("parent"))).expect(201)
    rules = [rule("", "configmaps", "create", "get")]
    if permitted:
        rules.append(rule("batch", "jobs/finalizers", "update"))
    await account.may(*rules)
    await eventually(
        lambda: account.allowed(account.ns.config_maps("a")), "the role to be in force"
    )

    body = config_map("a", ownerReferences=[owner(parent, controller=True, block=True)])
    answer = await account.rest.post(account.ns.config_maps(), body)

    if permitted:
        answer.expect(201)
    else:
        assert refused(answer) == (
            'configmaps "a" is forbidden: cannot set blockOwnerDeletion if an ownerReference'
            " refers to a resource you can't set finalizers on: , <nil>"
        )


async def test_who_names_an_owner_later_must_have_the_right_to_delete(
    account: Account, rest: Rest
) -> None:
    parent = (await rest.post(account.ns.jobs(), job("parent"))).expect(201)
    (await rest.post(account.ns.config_maps(), config_map("a"))).expect(201)
    await account.may(rule("", "configmaps", "get", "patch"))
    await eventually(
        lambda: account.allowed(account.ns.config_maps("a")), "the role to be in force"
    )

    patch = {"metadata": {"ownerReferences": [owner(parent)]}}
    answer = await account.rest.patch(account.ns.config_maps("a"), patch)

    assert "cannot set an ownerRef on a resource you can't delete" in refused(answer)


@pytest.mark.long
async def test_a_token_ends_with_its_account(account: Account, rest: Rest) -> None:
    assert (await account.rest.get("/version")).status == 200
    (await rest.delete(account.ns.core("serviceaccounts", "account"))).expect(200)

    async def unknown() -> bool:
        return (await account.rest.get("/apis")).status == 401

    await eventually(unknown, "the token to be good no more", 30)


async def test_a_token_of_no_account_is_refused(rest: Rest, ns: Namespace) -> None:
    path = f"{ns.core('serviceaccounts', 'absent')}/token"
    kind = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    (await rest.post(path, kind)).expect(404)

    (await rest.post(ns.core("serviceaccounts"), {"metadata": {"name": "short"}})).expect(201)
    short = {**kind, "spec": {"expirationSeconds": 1}}
    status = (await rest.post(f"{ns.core('serviceaccounts', 'short')}/token", short)).expect(422)
    assert causes(status) == {("FieldValueInvalid", "spec.expirationSeconds")}
