"""The clients of `/api/fit` on a console by https: the command, and the example of a webhook."""

import asyncio
import json
import ssl
import sys
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import yaml

from cli.main import main
from kube.client.client import Client
from kube.client.resources import NODES
from tests.analysis.what_if import test_what_if
from tests.console.serving.test_in_cluster import PATIENCE, Stage, apply, stage

__all__ = ["stage"]

EXAMPLE = Path(__file__).parents[3] / "examples" / "fit-admission" / "fit_admission.py"
SIZES = {"small": 2, "large": 9}
"""Pods of the workloads: only the first fits."""
GANG = {"gang-mode": "Gang"}
Json = dict[str, Any]
AMOUNTS = {"cpu": "4", "memory": "8Gi", "pods": "110"}


def job(name: str, pods: int, **annotations: str) -> Json:
    """Return a Job without a namespace."""
    made = test_what_if.job(name, pods, **annotations)
    del made["metadata"]["namespace"]
    return made


@pytest.fixture
async def ready(stage: Stage, tmp_path: Path) -> Stage:
    """Return the stage with a node, a user who may create Jobs in `red`, and their files."""
    status = {"allocatable": AMOUNTS, "capacity": AMOUNTS}
    await stage.client.create(NODES, {"metadata": {"name": "machine-1"}, "status": status})
    async with asyncio.timeout(PATIENCE):
        while not stage.served.cluster.state.nodes.row_of:  # noqa: ASYNC110
            await asyncio.sleep(0.02)
    await allow(stage.client, "anna", "red")
    (tmp_path / "token").write_text(stage.token("anna"))
    for name, pods in SIZES.items():
        made = job(name, pods, **GANG)
        (tmp_path / f"{name}.yaml").write_text(yaml.safe_dump(made))
    return stage


async def allow(client: Client, user: str, namespace: str) -> None:
    """Let the user create Jobs in the namespace."""
    group = "rbac.authorization.k8s.io"
    rules = [{"apiGroups": ["batch"], "resources": ["jobs"], "verbs": ["create"]}]
    await apply(client, {"kind": "ClusterRole", "metadata": {"name": "runs"}, "rules": rules})
    await apply(client, {
        "kind": "RoleBinding", "metadata": {"name": "runs", "namespace": namespace},
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": "runs"},
        "subjects": [{"apiGroup": group, "kind": "User", "name": user}],
    })  # fmt: skip


async def ran(stage: Stage, folder: Path, *arguments: str) -> int:
    """Run `muster fit` as the user of the token; return its exit code."""
    files = ["--token-file", str(folder / "token"), "--ca-file", str(folder / "ca.crt")]
    server = ["--server", f"https://127.0.0.1:{stage.served.port}"]
    async with asyncio.timeout(PATIENCE):
        return await asyncio.to_thread(main, ["fit", *server, *files, *arguments])


async def test_the_command_asks_a_console(
    ready: Stage, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "ca.crt").write_bytes(ready.ca)
    small, large = str(tmp_path / "small.yaml"), str(tmp_path / "large.yaml")

    assert await ran(ready, tmp_path, "-n", "red", "-f", small) == 0
    assert capsys.readouterr().out == "PodGroup red/pg-job-small: fits now\n"
    assert await ran(ready, tmp_path, "-n", "red", "-f", small, "-f", large) == 1
    said = capsys.readouterr().out
    assert "workload 1: yes\n" in said
    assert "workload 2: no\n" in said
    assert "needs capacity for 9 more pods; 4 fit" in said
    assert await ran(ready, tmp_path, "-n", "red", "-f", small, "-o", "json") == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["workloads"][0]["roots"][0]["nodes"] is None
    assert await ran(ready, tmp_path, "-n", "blue", "-f", small) == 2
    assert "You may not create Job objects in namespace" in capsys.readouterr().err

    config = yaml.safe_load(ready.cluster.kubeconfig.read_text())
    config["users"][0]["user"] = {"token": (tmp_path / "token").read_text()}
    config["contexts"][0]["context"]["namespace"] = "red"
    (tmp_path / "own").write_text(yaml.safe_dump(config))
    server = ["--server", f"https://127.0.0.1:{ready.served.port}"]
    usual = ["fit", *server, "--ca-file", str(tmp_path / "ca.crt"), "-f", small]
    assert await asyncio.to_thread(main, [*usual, "--kubeconfig", str(tmp_path / "own")]) == 0
    assert capsys.readouterr().out.startswith("PodGroup red/pg-job-small: fits now\n")
    config["users"][0]["user"] = {}
    (tmp_path / "own").write_text(yaml.safe_dump(config))
    assert await asyncio.to_thread(main, [*usual, "--kubeconfig", str(tmp_path / "own")]) == 2
    assert "the kubeconfig has no token for the console" in capsys.readouterr().err

    (tmp_path / "token").write_text("wrong")
    assert await ran(ready, tmp_path, "-n", "red", "-f", small) == 2
    assert "does not accept this token" in capsys.readouterr().err


async def test_the_example_warns_about_what_does_not_fit(ready: Stage, tmp_path: Path) -> None:
    (tmp_path / "ca.crt").write_bytes(ready.ca)
    process = await asyncio.create_subprocess_exec(
        sys.executable, str(EXAMPLE), "--console", f"https://127.0.0.1:{ready.served.port}",
        "--ca-file", str(tmp_path / "ca.crt"), "--token-file", str(tmp_path / "token"),
        "--tls", str(tmp_path / "tls"), "--port", "0", stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    try:
        assert process.stdout is not None
        async with AsyncExitStack() as stack, asyncio.timeout(PATIENCE):
            port = int((await process.stdout.readline()).split()[-1])
            http = await stack.enter_async_context(aiohttp.ClientSession())
            warned = [
                await warnings_of(http, ready.trust, port, job(name, pods, **GANG))
                for name, pods in SIZES.items()
            ]
    finally:
        process.kill()
        await process.wait()
    assert warned[0] == []
    (warning,) = warned[1]
    assert "does not fit now: 0/1 nodes are available: 1 Insufficient cpu" in warning


async def warnings_of(
    http: aiohttp.ClientSession, trust: ssl.SSLContext, port: int, obj: Json
) -> list[str]:
    """Return the warnings of the webhook about the creation of the object."""
    review = {
        "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
        "request": {"uid": "u", "namespace": "red", "object": obj},
    }  # fmt: skip
    async with http.post(f"https://127.0.0.1:{port}/", json=review, ssl=trust) as response:
        answer: dict[str, Any] = (await response.json())["response"]
    assert (answer["uid"], answer["allowed"]) == ("u", True)
    return list(answer.get("warnings", []))
