"""The image, as far as it can be tested without a container engine.

The test carries out its build step by step in a separate folder, with the files that the engine
would get. It starts the resulting webhook with the permissions of a pod.
"""

import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from cli.commands import COMMANDS
from e2e.flows.admission.webhook.conftest import NAMESPACE
from e2e.flows.admission.webhook.load import GROUP, pod_group
from e2e.flows.admission.webhook.replicas import Replicas
from e2e.harness.controlplane.places import ROOT
from e2e.harness.support import manifests
from e2e.harness.support.rest import APPLY_PATCH, Rest
from e2e.nodes.cluster.images import sent

Stage = list[tuple[str, str]]


def stages() -> list[Stage]:
    """Return the instructions of each stage, as (word, rest)."""
    text = (ROOT / "Dockerfile").read_text().replace("\\\n", " ")
    lines = [line.split(None, 1) for line in text.splitlines() if line and line[0] != "#"]
    found: list[Stage] = []
    for word, rest in lines:
        if word == "FROM":
            found.append([])
        found[-1].append((word, rest.strip()))
    return found


def words(stage: Stage, word: str) -> list[str]:
    return [rest for name, rest in stage if name == word]


def test_all_that_is_copied_is_there_and_sent() -> None:
    build, last = stages()
    sources = [shlex.split(rest)[0] for rest in words(build, "COPY")]

    assert sources == ["requirements/runtime.txt", "."]
    assert [path for path in sent() if not path.exists()] == []
    assert ROOT / sources[0] in sent()
    built = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]
    held = built["targets"]["wheel"]["only-include"]
    assert {it.partition("/")[0] for it in held} <= {str(path.relative_to(ROOT)) for path in sent()}
    assert not {ROOT / "localcluster", ROOT / "tests", ROOT / "e2e"} & set(sent())
    # The last stage copies only from the first: no compiler, no cache, no source.
    assert words(last, "COPY") == ["--from=build /opt/muster /opt/muster"]
    assert words(last, "RUN") == []


def test_it_runs_what_the_package_installs_as_the_user_of_the_deployments() -> None:
    *_, last = stages()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    pods = [
        obj["spec"]["template"]["spec"] for obj in manifests.load() if obj["kind"] == "Deployment"
    ]

    (entry,) = words(last, "ENTRYPOINT")
    assert entry == '["muster"]'
    assert "muster" in project["scripts"]
    (user,) = words(last, "USER")
    contexts = [pod["securityContext"] for pod in pods]
    assert {f"{one['runAsUser']}:{one['runAsGroup']}" for one in contexts} == {user}
    assert not user.startswith("0")
    assert {pod["containers"][0]["image"] for pod in pods} == {f"muster:{project['version']}"}
    bases = [rest.partition(" ")[0] for stage in stages() for rest in words(stage, "FROM")]
    # The same Python in both, as the interpreter of the last stage loads what the first compiled.
    python = f"python:{project['requires-python'].removeprefix('>=')}"
    assert bases == [python, f"{python}-slim"]


def copy(path: Path, context: Path) -> None:
    """Copy one file or folder into the engine's build folder."""
    target = context / path.relative_to(ROOT)
    target.parent.mkdir(parents=True, exist_ok=True)
    if path.is_dir():
        shutil.copytree(path, target, ignore=shutil.ignore_patterns("__pycache__"))
    else:
        shutil.copy(path, target)


def interpreter() -> Path:
    """Return a Python that any user may start, like the image's; else the one of these tests."""
    name = f"python3.{sys.version_info.minor}"
    own = Path(sys.base_prefix) / "bin" / name
    for path in (own, Path("/usr/local/bin") / name, Path("/usr/bin") / name):
        if path.is_file() and all(one.stat().st_mode & 0o001 for one in path.resolve().parents):
            return path
    return own


def open_folder() -> Path:
    """The checkout's cache, if other users may enter it; else the folder of all users."""
    cache = ROOT / ".cache"
    cache.mkdir(exist_ok=True)
    closed = any(not one.stat().st_mode & 0o001 for one in (cache, *cache.parents))
    return Path("/var/tmp") if closed else cache


@pytest.fixture(scope="module")
def built() -> Iterator[Path]:
    """The folder that the last stage would have as /opt/muster; everybody may read it.

    It is not below pytest's folder, which each session of pytest closes to other users.
    """
    with tempfile.TemporaryDirectory(prefix="muster-image-", dir=open_folder()) as name:
        root = Path(name)
        root.chmod(0o755)
        for path in sent():
            copy(path, root / "src")
        (root / "bin").mkdir()
        (root / "bin" / "python").symlink_to(interpreter())
        environment = {**os.environ, "PATH": f"{root / 'bin'}:{os.environ['PATH']}"}
        for command in words(stages()[0], "RUN"):
            here = re.sub(r"(?<![\w/])/(opt|wheels|src)\b", rf"{root}/\1", command)
            subprocess.run(["bash", "-ec", here], cwd=root / "src", env=environment, check=True)
        shutil.rmtree(root / "src")
        yield root / "opt" / "muster"


@pytest.mark.long
@pytest.mark.timeout(900)
def test_what_the_steps_make_needs_no_rights_and_nothing_beside_it(built: Path) -> None:
    command = [str(built / "bin" / "muster")]
    if os.geteuid() == 0:
        user = next(rest for rest in words(stages()[1], "USER")).partition(":")[0]
        command = ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups", *command]
    environment = {"PATH": "/usr/bin:/bin", "PYTHONDONTWRITEBYTECODE": "1"}

    for process in ("webhook", "controller", "scheduler", "all", *COMMANDS):
        said = subprocess.run(
            [*command, process, "--help"],
            cwd="/",
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert said.returncode == 0, said.stderr
        assert process in COMMANDS or "--kubeconfig" in said.stdout
    assert not (built / "bin" / "pip").exists()
    (site,) = built.glob("lib/python*/site-packages")
    assert not [name for name in ("setuptools", "kubernetes") if (site / name).exists()]
    assert not [*site.rglob("tests"), *site.rglob("*.pyi")]
    # Each module is compiled, once.
    sources, compiled = [*site.rglob("*.py")], [*site.rglob("*.pyc")]
    assert len(compiled) <= len(sources) <= len(compiled) + 5, "some are templates"
    size = sum(path.lstat().st_size for path in built.rglob("*") if path.is_file())
    # With the 131 MB of python:3.11-slim the image has less than 250 MB.
    assert size < 119_000_000, f"{size / 1e6:.0f} MB"
    for name in ("localcluster", "manifests", "examples", "tests"):
        assert not [*built.glob(f"lib/python*/site-packages/{name}")]


@pytest.mark.long
@pytest.mark.timeout(900)
async def test_what_the_steps_make_serves_from_what_it_has_installed(
    admin: Path, api: Rest, built: Path
) -> None:
    async with Replicas(admin, command=[str(built / "bin" / "muster")]) as replicas:
        await replicas.start()
        answer = await api.patch(
            f"{GROUP}/v1alpha2/namespaces/{NAMESPACE}/podgroups/installed",
            pod_group("installed", "v1alpha2"),
            APPLY_PATCH,
            params={"fieldManager": "kubectl"},
        )

    assert answer.expect(201)["metadata"]["finalizers"]
