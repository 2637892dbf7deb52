"""Calls of webhooks: the request, the effect of the response, and failures.

The errors are those of kube-apiserver 1.36.3, recorded there.
"""

import asyncio
import base64
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from localcluster.base import resources
from localcluster.base.errors import StatusError
from localcluster.base.hooks import User, WriteOptions
from localcluster.tests.admission.conftest import Register
from localcluster.tests.admission.hook_server import (
    HookServer,
    allow,
    bundle,
    make_certificate,
    patching,
)
from localcluster.tests.api_server import ApiServer


def config_map(name: str = "c", **data: str) -> dict[str, Any]:
    return {"metadata": {"name": name, "labels": {"app": "x"}}, "data": data}


async def refused(apiserver: ApiServer, **options: Any) -> StatusError:
    said = WriteOptions(**options)
    with pytest.raises(StatusError) as found:
        await apiserver.api.create(resources.CONFIG_MAPS, config_map(), "default", options=said)
    return found.value


async def test_a_webhook_sees_the_whole_request(
    apiserver: ApiServer, hooks: HookServer, register: Register
) -> None:
    hooks.answers["/m"] = allow
    await register("/m")

    await apiserver.api.create(
        resources.CONFIG_MAPS, config_map(a="1"), "default", user=User("ann", ("dev",), "7")
    )

    (seen,) = hooks.requests("/m")
    gvk = {"group": "", "version": "v1", "kind": "ConfigMap"}
    gvr = {"group": "", "version": "v1", "resource": "configmaps"}
    assert seen["kind"] == seen["requestKind"] == gvk
    assert seen["resource"] == seen["requestResource"] == gvr
    assert (seen["name"], seen["namespace"], seen["operation"]) == ("c", "default", "CREATE")
    assert seen["userInfo"] == {"username": "ann", "uid": "7", "groups": ["dev"]}
    assert seen["object"]["data"] == {"a": "1"}
    assert seen["object"]["kind"] == "ConfigMap"
    assert seen["oldObject"] is None
    assert seen["dryRun"] is False
    assert seen["options"]["kind"] == "CreateOptions"


async def test_a_patch_changes_what_is_stored(
    apiserver: ApiServer, hooks: HookServer, register: Register
) -> None:
    hooks.answers["/m"] = patching({"op": "add", "path": "/data/b", "value": "2"})
    await register("/m")

    stored = await apiserver.add(resources.CONFIG_MAPS, config_map(a="1"), "default")

    assert stored["data"] == {"a": "1", "b": "2"}


@pytest.mark.parametrize(
    ("status", "want"),
    [
        pytest.param(
            None,
            (400, "", 'admission webhook "h.b.c" denied the request without explanation'),
            id="without a word",
        ),
        pytest.param(
            {"reason": "Forbidden"},
            (400, "Forbidden", 'admission webhook "h.b.c" denied the request: Forbidden'),
            id="with a reason only",
        ),
        pytest.param(
            {"code": 422, "reason": "Invalid", "message": "no good"},
            (422, "Invalid", 'admission webhook "h.b.c" denied the request: no good'),
            id="with code, reason and message",
        ),
    ],
)
@pytest.mark.parametrize("kind", ["Mutating", "Validating"])
async def test_a_refusal_carries_the_webhooks_own_status(
    apiserver: ApiServer,
    hooks: HookServer,
    register: Register,
    kind: str,
    status: Any,
    want: tuple[int, str, str],
) -> None:
    causes = [{"field": "spec.x", "reason": "FieldValueInvalid", "message": "bad"}]
    said = status and {**status, "details": {"causes": causes}}
    hooks.answers["/d"] = lambda _: {"allowed": False, "status": said}
    await register("/d", kind)

    error = await refused(apiserver)

    assert (error.code, error.reason, error.message) == want
    assert error.details == ({"causes": causes} if status else None)


def text(body: str, status: int = 200) -> Any:
    return lambda _: web.Response(text=body, status=status)


def review(**fields: Any) -> Any:
    body = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", **fields}
    return lambda _: web.json_response(body)


PATCH = base64.b64encode(b"[]").decode()


@pytest.mark.parametrize(
    ("kind", "answer", "reason"),
    [
        pytest.param(
            "Validating",
            text("oops", 500),
            'failed to call webhook: an error on the server ("oops") has prevented the request'
            " from succeeding",
            id="a server error",
        ),
        pytest.param(
            "Validating",
            text("gone", 404),
            "failed to call webhook: the server could not find the requested resource",
            id="a path that is not there",
        ),
        pytest.param(
            "Validating",
            text("hello"),
            "failed to call webhook: couldn't get version/kind; json parse error: Expecting value:"
            " line 1 column 1 (char 0)",
            id="an answer that is no JSON",
        ),
        pytest.param(
            "Validating",
            review(),
            "received invalid webhook response: webhook response was absent",
            id="no response",
        ),
        pytest.param(
            "Validating",
            lambda _: {"allowed": True, "patch": PATCH, "patchType": "JSONPatch"},
            "received invalid webhook response: validating webhook may not return response.patch",
            id="a patch from a validating webhook",
        ),
        pytest.param(
            "Mutating",
            lambda _: {"allowed": True, "patch": PATCH},
            "received invalid webhook response: webhook returned response.patch but not"
            " response.patchType",
            id="a patch of no type",
        ),
    ],
)
async def test_an_answer_that_breaks_the_protocol_fails_the_request(
    apiserver: ApiServer, hooks: HookServer, register: Register, kind: str, answer: Any, reason: str
) -> None:
    hooks.answers["/x"] = answer
    await register("/x", kind)

    error = await refused(apiserver)

    message = f'failed calling webhook "h.b.c": {reason}'
    assert (error.code, error.reason) == (500, "InternalError")
    assert error.message == f"Internal error occurred: {message}"
    assert error.details == {"causes": [{"message": message}]}


async def test_an_answer_to_another_request_fails_the_request(
    apiserver: ApiServer, hooks: HookServer, register: Register
) -> None:
    hooks.answers["/x"] = lambda _: {"allowed": True, "uid": "x"}
    await register("/x")

    error = await refused(apiserver)

    (seen,) = hooks.requests("/x")
    assert error.message.endswith(f'expected response.uid="{seen["uid"]}", got "x"')


async def test_a_webhook_that_takes_too_long_fails_the_request(
    apiserver: ApiServer, hooks: HookServer, register: Register
) -> None:
    released = asyncio.Event()

    async def wait() -> dict[str, Any]:
        await released.wait()
        return {"allowed": True}

    hooks.answers["/slow"] = lambda _: wait()
    await register("/slow", timeoutSeconds=1)

    error = await refused(apiserver)
    released.set()

    url = f"https://127.0.0.1:{hooks.port}/slow?timeout=1s"
    assert error.message.endswith(
        f'failed to call webhook: Post "{url}": context deadline exceeded'
    )


async def test_a_webhook_of_another_authority_is_not_trusted(
    apiserver: ApiServer, hooks: HookServer, register: Register, tmp_path: Path
) -> None:
    other = bundle(make_certificate(tmp_path, "other"))
    url = f"https://127.0.0.1:{hooks.port}/m"
    await register("/m", clientConfig={"url": url, "caBundle": other})

    error = await refused(apiserver)

    assert error.message.endswith(
        f'Post "{url}?timeout=10s": tls: failed to verify certificate: x509: certificate signed'
        " by unknown authority"
    )


async def test_a_webhook_that_fails_open_is_passed_over(
    apiserver: ApiServer, hooks: HookServer, register: Register
) -> None:
    hooks.answers["/x"] = text("oops", 500)
    await register("/x", failurePolicy="Ignore")

    stored = await apiserver.add(resources.CONFIG_MAPS, config_map(a="1"), "default")

    assert stored["data"] == {"a": "1"}


async def test_a_patch_that_does_not_apply_fails_the_request_even_when_failing_open(
    apiserver: ApiServer, hooks: HookServer, register: Register
) -> None:
    hooks.answers["/m"] = patching({"op": "replace", "path": "/nope/x", "value": 1})
    await register("/m", failurePolicy="Ignore")

    error = await refused(apiserver)

    assert error.code == 500


async def test_a_service_is_called_at_its_stand_in_by_its_own_name(
    apiserver: ApiServer, register: Register, tmp_path: Path
) -> None:
    server = HookServer(make_certificate(tmp_path, "hook.ns.svc"))
    server.answers["/v"] = allow
    await server.start()
    apiserver.services["ns", "hook"] = ("127.0.0.1", server.port)
    service = {"namespace": "ns", "name": "hook", "path": "/v", "port": 443}

    await register("/v", clientConfig={"service": service, "caBundle": server.bundle})
    await apiserver.add(resources.CONFIG_MAPS, config_map(), "default")
    await server.stop()

    assert server.hosts == ["hook.ns.svc:443"]


async def test_a_service_without_a_stand_in_is_not_found(
    apiserver: ApiServer, hooks: HookServer, register: Register
) -> None:
    service = {"namespace": "ns", "name": "hook", "path": "/v"}
    await register("/v", clientConfig={"service": service, "caBundle": hooks.bundle})

    error = await refused(apiserver)

    assert error.message.endswith(
        'Post "https://hook.ns.svc:443/v?timeout=10s": service "hook" not found'
    )


async def test_a_dry_run_is_told_to_webhooks(
    apiserver: ApiServer, hooks: HookServer, register: Register
) -> None:
    hooks.answers["/m"] = allow
    await register("/m", sideEffects="NoneOnDryRun")
    dry = WriteOptions(dry_run=True)

    await apiserver.api.create(resources.CONFIG_MAPS, config_map(), "default", options=dry)

    assert hooks.requests("/m")[0]["dryRun"] is True


async def test_the_first_of_several_refusals_counts(
    apiserver: ApiServer, hooks: HookServer, register: Register
) -> None:
    hooks.answers["/a"] = lambda _: {"allowed": False, "status": {"message": "first"}}
    hooks.answers["/b"] = lambda _: {"allowed": False, "status": {"message": "second"}}
    await register("/b", "Validating")
    await register("/a", "Validating")

    error = await refused(apiserver)

    assert error.message == 'admission webhook "h.b.c" denied the request: first'
    assert len(hooks.seen) == 2


async def test_mutating_webhooks_are_asked_in_the_order_of_their_names(
    apiserver: ApiServer, hooks: HookServer, register: Register
) -> None:
    for path in ("/a", "/b"):
        hooks.answers[path] = patching({"op": "add", "path": "/data/last", "value": path})
    await register("/b")
    await register("/a")

    stored = await apiserver.add(resources.CONFIG_MAPS, config_map(x="1"), "default")

    assert stored["data"]["last"] == "/b"


@pytest.mark.parametrize(
    ("policy", "later_changes", "times"),
    [
        pytest.param("IfNeeded", True, 2, id="asked again after a later change"),
        pytest.param("IfNeeded", False, 1, id="asked once when nothing changed later"),
        pytest.param("Never", True, 1, id="asked once when it does not want more"),
    ],
)
async def test_reinvocation(
    apiserver: ApiServer,
    hooks: HookServer,
    register: Register,
    policy: str,
    later_changes: bool,
    times: int,
) -> None:
    hooks.answers["/a"] = patching({"op": "add", "path": "/data/a", "value": "1"})
    later = patching({"op": "add", "path": "/data/b", "value": "2"})
    hooks.answers["/b"] = later if later_changes else allow
    await register("/a", reinvocationPolicy=policy)
    await register("/b")

    await apiserver.add(resources.CONFIG_MAPS, config_map(x="1"), "default")

    assert len(hooks.requests("/a")) == times
    assert len(hooks.requests("/b")) == 1
