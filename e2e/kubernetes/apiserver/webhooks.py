"""A webhook server of the suite, over real TLS, and its registrations."""

import base64
import json
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from aiohttp import web

from e2e.harness.support import pki, ports
from e2e.harness.support.rest import Rest
from e2e.harness.support.waiting import eventually
from localcluster.testing.listening import Listener

Object = dict[str, Any]
Answer = Callable[[Object], Object]
Convert = Callable[[Object, str], Object]

ADMISSION = "/apis/admissionregistration.k8s.io/v1"


class Server:
    """Server that responds to admission reviews by `answer`, and records every request.

    `answer` maps the review's request to the response, without its uid. `convert` handles
    conversion reviews, object by object; they are recorded in `conversions`.
    """

    def __init__(self, port: int, ca_pem: bytes) -> None:
        self._port = port
        self._ca_pem = ca_pem
        self.answer: Answer = lambda _request: {"allowed": True}
        self.convert: Convert = lambda obj, version: {**obj, "apiVersion": version}
        self.conversions: list[Object] = []
        self.requests: list[Object] = []
        self.reviews: list[Object] = []

    def client_config(self, path: str = "/") -> Object:
        bundle = base64.b64encode(self._ca_pem).decode()
        return {"url": f"https://127.0.0.1:{self._port}{path}", "caBundle": bundle}

    async def handle(self, request: web.Request) -> web.Response:
        review = await request.json()
        if review["kind"] == "ConversionReview":
            return self._converted(review)
        self.reviews.append(review)
        self.requests.append(review["request"])
        response = {"uid": review["request"]["uid"], **self.answer(review["request"])}
        body = {
            "apiVersion": "admission.k8s.io/v1",
            "kind": "AdmissionReview",
            "response": response,
        }
        return web.json_response(body)

    def _converted(self, review: Object) -> web.Response:
        request = review["request"]
        self.conversions.append(request)
        response: Object = {"uid": request["uid"], "result": {"status": "Success"}}
        try:
            response["convertedObjects"] = [
                self.convert(obj, request["desiredAPIVersion"]) for obj in request["objects"]
            ]
        except ValueError as error:
            response["result"] = {"status": "Failed", "message": str(error)}
        kind = {"apiVersion": review["apiVersion"], "kind": "ConversionReview"}
        return web.json_response({**kind, "response": response})


@asynccontextmanager
async def serving(folder: Path) -> AsyncIterator[Server]:
    """Run the server on a free loopback port with its own certificate."""
    made = pki.issue(folder)
    (port,) = ports.free(1)
    server = Server(port, made.ca_pem)
    application = web.Application()
    application.router.add_post("/{path:.*}", server.handle)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(made.certificate, made.key)
    listener = Listener(application, context)
    await listener.start(port)
    try:
        yield server
    finally:
        await listener.close()


def patch_answer(*ops: Object) -> Object:
    encoded = base64.b64encode(json.dumps(list(ops)).encode()).decode()
    return {"allowed": True, "patchType": "JSONPatch", "patch": encoded}


def webhook(name: str, client_config: Object, namespace: str, **fields: Any) -> Object:
    """Return a webhook on the creation and update of one namespace's ConfigMaps."""
    return {
        "name": f"{name}.example.com",
        "clientConfig": client_config,
        "rules": [
            {
                "apiGroups": [""],
                "apiVersions": ["v1"],
                "operations": ["CREATE", "UPDATE"],
                "resources": ["configmaps"],
            }
        ],
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
        # The controllers of a real cluster write ConfigMaps of their own.
        "objectSelector": {"matchLabels": {"suite": "admission"}},
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "timeoutSeconds": 5,
        **fields,
    }


@asynccontextmanager
async def registered(
    rest: Rest, kind: str, name: str, *webhooks: Object, probe: Callable[[], Any]
) -> AsyncIterator[None]:
    """Register webhooks, and wait until `probe` shows that the server calls them.

    `kind` is "mutating" or "validating". The API server observes a configuration by its own watch,
    a moment after its creation.
    """
    body = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": f"{kind.capitalize()}WebhookConfiguration",
        "metadata": {"name": name},
        "webhooks": list(webhooks),
    }
    path = f"{ADMISSION}/{kind}webhookconfigurations"
    (await rest.post(path, body)).expect(201)
    try:
        await eventually(probe, f"the {kind} webhooks to be called")
        yield
    finally:
        await rest.delete(f"{path}/{name}")
