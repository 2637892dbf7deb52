"""The registration matches the manifests, whatever it was before."""

from collections.abc import Callable
from typing import Any

import pytest

from api.integration.kinds import EMBEDDING_KINDS, OWNER_KINDS
from certs.bundle import encoded
from certs.material import ServerNames
from kube.base.errors import Conflict
from kube.client.resources import CRDS
from tests.support.memory_api import Request
from tests.webhooks.registrations import Registrations
from webhooks.routing.reviewer import ROUTES
from webhooks.server.registration import (
    NotInstalledError,
    Registered,
    RegistrationError,
    ServiceTarget,
    UrlTarget,
    load_manifests,
    register,
)

BUNDLE = b"-----BEGIN CERTIFICATE-----\n"
URL = UrlTarget("https://127.0.0.1:9443")
SERVICE = ServiceTarget()
DEFINITION = "podgroups.scheduling.muster.dev"


async def installed(target: UrlTarget | ServiceTarget) -> Registrations:
    """Return a cluster with everything registered."""
    registry = (
        Registrations(*load_manifests()) if isinstance(target, ServiceTarget) else Registrations()
    )
    await register(registry, target, BUNDLE, load_manifests())
    return registry


async def test_by_url_everything_is_installed() -> None:
    registry = Registrations()

    registered = await register(registry, URL, BUNDLE, load_manifests())

    assert registered == Registered("127.0.0.1", BUNDLE, corrected=True)
    assert {webhook["clientConfig"]["url"] for webhook in registry.webhooks()} == {
        f"https://127.0.0.1:9443/{route}" for route in ROUTES
    }
    assert {webhook["clientConfig"]["caBundle"] for webhook in registry.webhooks()} == {
        encoded(BUNDLE)
    }


async def test_by_service_the_ca_is_put_into_what_is_installed() -> None:
    registry = Registrations(*load_manifests())

    registered = await register(registry, SERVICE, BUNDLE, load_manifests())

    assert registered == Registered("muster-webhook.muster-system.svc", BUNDLE, corrected=True)
    assert {webhook["clientConfig"]["service"]["name"] for webhook in registry.webhooks()} == {
        "muster-webhook"
    }


async def test_by_service_what_is_not_installed_is_said() -> None:
    with pytest.raises(NotInstalledError, match="MutatingWebhookConfiguration muster"):
        await register(Registrations(), SERVICE, BUNDLE, load_manifests())


@pytest.mark.parametrize("target", [URL, SERVICE], ids=["by URL", "by Service"])
async def test_what_is_right_is_not_written_again(target: UrlTarget | ServiceTarget) -> None:
    registry = await installed(target)
    writes = registry.writes
    with registry.changed() as webhooks:
        for webhook in webhooks:
            # The API server sets defaults for fields that a manifest omits.
            webhook["somethingDefaulted"] = True

    registered = await register(registry, target, BUNDLE, load_manifests())

    assert registry.writes == writes
    assert not registered.corrected


@pytest.mark.parametrize(
    "damage",
    [
        pytest.param(lambda all_: all_[0]["clientConfig"].pop("caBundle"), id="a lost caBundle"),
        pytest.param(
            lambda all_: all_[1]["clientConfig"].update(caBundle="b2xk"), id="another caBundle"
        ),
        pytest.param(lambda all_: all_[2].update(failurePolicy="Ignore"), id="a weaker policy"),
        pytest.param(lambda all_: all_[1].pop("matchConditions"), id="a lost match condition"),
        pytest.param(
            lambda all_: all_[0]["clientConfig"].update(url="https://elsewhere/x"),
            id="another URL",
        ),
        pytest.param(lambda all_: all_[3].update(name="renamed.example.dev"), id="another name"),
        pytest.param(
            lambda all_: all_[0].update(
                clientConfig={"service": {"name": "x", "namespace": "y", "path": "/"}}
            ),
            id="a Service instead",
        ),
    ],
)
async def test_by_url_what_someone_changed_is_repaired(
    damage: Callable[[list[dict[str, Any]]], Any],
) -> None:
    registry = await installed(URL)
    right = registry.webhooks()
    with registry.changed() as webhooks:
        damage(webhooks)
    assert registry.webhooks() != right

    await register(registry, URL, BUNDLE, load_manifests())

    assert registry.webhooks() == right


async def test_by_url_nothing_else_of_a_configuration_is_touched() -> None:
    registry = await installed(URL)
    for obj in registry.configurations:
        labels = {"theirs": "kept"}
        left = {"metadata": obj["metadata"] | {"labels": labels}, "webhooks": obj["webhooks"][:-1]}
        registry.install(obj | left)

    await register(registry, URL, BUNDLE, load_manifests())

    assert [obj["metadata"]["labels"] for obj in registry.configurations] == [
        {"theirs": "kept"},
        {"theirs": "kept"},
    ]


async def test_a_replica_that_registers_first_is_no_error() -> None:
    registry = Registrations()
    registry.on(lambda request: registry.install(request.body), "create")

    registered = await register(registry, URL, BUNDLE, load_manifests())

    assert (registered.host, registered.ca_bundle) == ("127.0.0.1", BUNDLE)


async def test_a_change_in_between_is_a_conflict_and_not_lost() -> None:
    def someone_else_writes(_request: Request) -> None:
        with registry.changed() as webhooks:
            webhooks[0]["theirs"] = True

    registry = await installed(URL)
    with registry.changed() as webhooks:
        webhooks[0]["failurePolicy"] = "Ignore"
    registry.on(someone_else_writes, "patch")

    with pytest.raises(Conflict):
        await register(registry, URL, BUNDLE, load_manifests())


async def test_by_service_webhooks_that_lead_to_several_servers_are_said() -> None:
    registry = await installed(SERVICE)
    with registry.changed() as webhooks:
        webhooks[0]["clientConfig"]["service"].update(name="other")

    with pytest.raises(RegistrationError, match="must all point to one server"):
        await register(registry, SERVICE, BUNDLE, load_manifests())


async def test_a_registered_ca_that_is_no_base64_is_said() -> None:
    def garble(request: Request) -> None:
        for webhook in request.body["webhooks"]:
            webhook["clientConfig"]["caBundle"] = "%%%"

    registry = Registrations()
    registry.on(garble, "create")

    with pytest.raises(RegistrationError, match="not valid base64"):
        await register(registry, URL, BUNDLE, load_manifests())


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1:1",
        "127.0.0.1:1",
        "https://",
        "https://x/?a=b",
        "https://x/#y",
        "https://x:0",
        "https://x:port",
    ],
)
def test_a_url_that_no_webhook_can_have_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match=r"https://HOST|[Pp]ort"):
        UrlTarget(url)


def test_a_target_knows_the_names_of_its_certificate() -> None:
    assert UrlTarget("https://[::1]:9443").names == ServerNames(ips=("::1",))
    assert UrlTarget("https://hooks.example/base").names == ServerNames(dns=("hooks.example",))
    assert SERVICE.names.dns[0] == "muster-webhook.muster-system.svc"


def test_a_path_in_the_url_comes_before_the_webhooks_own() -> None:
    rewritten = UrlTarget("https://x/base/").rewritten(load_manifests()[0], BUNDLE)

    assert rewritten["webhooks"][0]["clientConfig"]["url"].startswith("https://x/base/mutate/")


def definition(strategy: str = "Webhook") -> dict[str, Any]:
    """Return one of our kinds as an administrator installs it."""
    service = {"name": "muster-webhook", "namespace": "muster-system", "path": "/convert"}
    conversion: dict[str, Any] = {"strategy": strategy}
    if strategy == "Webhook":
        conversion["webhook"] = {
            "conversionReviewVersions": ["v1"],
            "clientConfig": {"service": service},
        }
    return {
        "kind": "CustomResourceDefinition",
        "metadata": {"name": DEFINITION},
        "spec": {"group": "scheduling.muster.dev", "conversion": conversion},
    }


def conversion(registry: Registrations) -> Any:
    (found,) = registry.all(CRDS)
    return found["spec"]["conversion"]


@pytest.mark.parametrize(
    ("target", "want"),
    [
        pytest.param(URL, {"url": "https://127.0.0.1:9443/convert"}, id="by URL"),
        pytest.param(
            SERVICE,
            {
                "service": {
                    "name": "muster-webhook",
                    "namespace": "muster-system",
                    "path": "/convert",
                }
            },
            id="by Service",
        ),
    ],
)
async def test_definitions_are_led_to_the_webhook_and_repaired(
    target: UrlTarget | ServiceTarget, want: dict[str, Any]
) -> None:
    manifests = load_manifests() if target is SERVICE else []
    registry = Registrations(*manifests, definition())

    await register(registry, target, BUNDLE, load_manifests())
    first = conversion(registry)["webhook"]["clientConfig"]
    with registry.edit(CRDS, DEFINITION) as crd:
        crd["spec"]["conversion"]["webhook"]["clientConfig"]["caBundle"] = "b2xk"
    repaired = await register(registry, target, BUNDLE, load_manifests())
    again = await register(registry, target, BUNDLE, load_manifests())

    assert first == want | {"caBundle": encoded(BUNDLE)}
    assert conversion(registry)["webhook"]["clientConfig"] == first
    assert (repaired.corrected, again.corrected) == (True, False)


async def test_definitions_that_are_not_converted_by_webhook_are_left_alone() -> None:
    registry = Registrations(definition("None"))

    await register(registry, URL, BUNDLE, load_manifests())

    assert conversion(registry) == {"strategy": "None"}


async def test_a_ca_that_someone_else_injects_is_not_written() -> None:
    manifests = load_manifests()
    for manifest in manifests:
        for webhook in manifest["webhooks"]:
            webhook["clientConfig"]["caBundle"] = encoded(b"theirs")
    theirs = definition()
    theirs["spec"]["conversion"]["webhook"]["clientConfig"]["caBundle"] = encoded(b"theirs")
    registry = Registrations(*manifests, theirs)

    registered = await register(registry, ServiceTarget(inject=False), BUNDLE, load_manifests())

    assert registered == Registered("muster-webhook.muster-system.svc", b"theirs")
    assert registry.writes == 0


def test_manifests_say_what_must_hold_for_every_webhook() -> None:
    webhooks = [webhook for manifest in load_manifests() for webhook in manifest["webhooks"]]

    assert {webhook["clientConfig"]["service"]["path"] for webhook in webhooks} == {
        f"/{route}" for route in ROUTES
    }
    for webhook in webhooks:
        # A webhook that only warns must not block requests.
        name = webhook["name"].split(".")[0]
        warns = name.endswith("-delay") or name == "cronjobs"
        assert webhook["failurePolicy"] == ("Ignore" if warns else "Fail")
        assert webhook["matchPolicy"] == "Equivalent"
        assert webhook["sideEffects"] == "None"
        assert webhook["timeoutSeconds"] <= 5
        (rule,) = webhook["rules"]
        ours = rule["apiGroups"][0] in {"scheduling.muster.dev", "coscheduling.muster.dev"}
        # Other kinds' objects must reach the webhook only if they request Muster.
        assert ours or webhook["matchConditions"][0]["name"] == "asks-for-muster"
        # Finalizers can be removed in any state of the webhook.
        assert "UPDATE" not in rule["operations"] or webhook["matchConditions"]


def test_mutation_and_validation_reach_the_same_objects_of_others() -> None:
    mutating, validating = (
        {
            webhook["clientConfig"]["service"]["path"].split("/")[-1]: webhook["matchConditions"][0]
            for webhook in manifest["webhooks"]
            if "asks-for-muster" in str(webhook.get("matchConditions"))
        }
        for manifest in load_manifests()
    )

    # test_match_conditions covers the pods case by case.
    same = {it.kind.plural for it in OWNER_KINDS.values()}
    of_others, reported = same | {"pods"}, {it.kind.plural for it in EMBEDDING_KINDS.values()}
    assert mutating.keys() - {"foreign-pods"} == validating.keys() - reported == of_others
    assert reported <= validating.keys()
    assert [mutating[it] for it in same] == [validating[it] for it in same]
