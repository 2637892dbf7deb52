"""A webhook server, and a shorthand for its registration."""

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from localcluster.base import resources
from localcluster.tests.admission.hook_server import HookServer, make_certificate
from localcluster.tests.api_server import ApiServer

Register = Callable[..., Awaitable[None]]


@pytest.fixture
async def hooks(tmp_path: Path) -> AsyncIterator[HookServer]:
    server = HookServer(make_certificate(tmp_path, "127.0.0.1"))
    await server.start()
    yield server
    await server.stop()


@pytest.fixture
def register(apiserver: ApiServer, hooks: HookServer) -> Register:
    async def create(path: str, kind: str = "Mutating", *, name: str = "", **fields: Any) -> None:
        info = resources.MUTATING_WEBHOOKS if kind == "Mutating" else resources.VALIDATING_WEBHOOKS
        url = f"https://127.0.0.1:{hooks.port}{path}"
        hook = {
            "name": "h.b.c",
            "clientConfig": {"url": url, "caBundle": hooks.bundle},
            "rules": [
                {
                    "operations": ["CREATE"],
                    "apiGroups": [""],
                    "apiVersions": ["v1"],
                    "resources": ["configmaps"],
                }
            ],
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
            **fields,
        }
        config = {
            "kind": f"{kind}WebhookConfiguration",
            "metadata": {"name": name or path.strip("/") or "root"},
            "webhooks": [hook],
        }
        await apiserver.api.create(info, config)

    return create
