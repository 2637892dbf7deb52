"""`make kind`: its commands in their order, and what its gangs do.

No Docker daemon runs where these tests do, so `docker`, `kind` and `kubectl` are stand-ins that
record how they are called. The gangs run on the cluster of the tests.
"""

import os
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest
import yaml

from e2e.harness.controlplane.places import ROOT
from e2e.harness.environment import Environment
from e2e.harness.objects import NODE_LABEL, of_job
from kube.client.resources import JOBS, PODS

FOLDER = Path(__file__).parent
COMMIT = "c" * 40
RACK = "topology.example/rack"
IMAGE = f"muster:{tomllib.loads((ROOT / 'pyproject.toml').read_text())['project']['version']}"
ON_CLUSTER = "kubectl --context kind-muster"


def recorded(folder: Path, *, clusters: str = "", missing: str = "", **variables: str) -> list[str]:
    """Run the script with stand-ins; return the commands that it called.

    `clusters` is what `kind get clusters` prints. Raises CalledProcessError.
    """
    calls, commands = folder / "calls", folder / "bin"
    calls.touch()
    commands.mkdir()
    for name in {"docker", "kind", "kubectl"} - {missing}:
        text = f'#!/bin/sh\necho "{name} $*" >> {calls}\n'
        text += f'[ "$1 $2" = "get clusters" ] && echo "{clusters}"\nexit 0\n'
        (commands / name).write_text(text)
        (commands / name).chmod(0o755)
    git = commands / "git"
    git.write_text(f"#!/bin/sh\necho {COMMIT}\n")
    git.chmod(0o755)
    for tool in ("sh", "dirname", "sed", "grep"):
        (commands / tool).symlink_to(str(shutil.which(tool)))
    subprocess.run(
        [FOLDER / "up.sh"],
        env={**os.environ, "PATH": str(commands), **variables},
        check=True,
        capture_output=True,
        text=True,
    )
    return calls.read_text().splitlines()


def test_the_steps_in_their_order(tmp_path: Path) -> None:
    calls = [call for call in recorded(tmp_path) if not call.startswith(f"{ON_CLUSTER} get ")]

    assert calls[:6] == [
        f"docker build --build-arg COMMIT={COMMIT} --tag {IMAGE} .",
        "docker pull busybox:1.37",
        "kind get clusters",
        "kind create cluster --name muster --config e2e/install/kind/cluster.yaml",
        f"kind load docker-image --name muster {IMAGE} busybox:1.37",
        f"{ON_CLUSTER} apply --server-side -k manifests/base",
    ]
    status = f"{ON_CLUSTER} --namespace muster-system rollout status deployment/muster-"
    assert calls[6:9] == [
        f"{status}{process} --timeout=5m" for process in ("webhook", "controller", "scheduler")
    ]
    assert calls[9] == f"{ON_CLUSTER} apply -f e2e/install/kind/gangs.yaml"


def test_a_cluster_that_exists_is_used_again(tmp_path: Path) -> None:
    calls = recorded(tmp_path, clusters="muster")

    assert not any(call.startswith("kind create") for call in calls)


def test_the_version_of_kubernetes_can_be_chosen(tmp_path: Path) -> None:
    calls = recorded(tmp_path, NODE_IMAGE="kindest/node:v1.34.0")

    assert any(call.endswith("--image kindest/node:v1.34.0") for call in calls)


@pytest.mark.parametrize("missing", ["docker", "kind", "kubectl"])
def test_a_missing_command_is_named(tmp_path: Path, missing: str) -> None:
    with pytest.raises(subprocess.CalledProcessError) as error:
        recorded(tmp_path, missing=missing)

    assert f"make kind needs {missing} on the PATH" in error.value.stderr
    assert (tmp_path / "calls").read_text() == ""


async def test_one_gang_runs_in_one_rack_and_the_other_waits(env: Environment) -> None:
    workers = yaml.safe_load((FOLDER / "cluster.yaml").read_text())["nodes"][1:]
    racks = {await env.add_node(cpu=4, labels=node["labels"]): node["labels"] for node in workers}
    for job in yaml.safe_load_all((FOLDER / "gangs.yaml").read_text()):
        job["spec"]["template"]["spec"]["nodeSelector"] = {NODE_LABEL: env.name}
        await env.client.create(JOBS, job, env.name)

    await env.runs(of_job("one-rack"), 4)
    await env.waits("pg-job-too-big", needed=400)

    pods = (await env.client.list(PODS, env.name))["items"]
    bound = [pod["spec"]["nodeName"] for pod in pods if pod["spec"].get("nodeName")]
    assert len(bound) == 4
    assert len({racks[node][RACK] for node in bound}) == 1
