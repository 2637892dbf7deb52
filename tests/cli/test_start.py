"""What a command or process imports: no more than its work needs, as all of it delays the start.

Each one is run to its end on an embedded cluster, so what it imports on its way is seen too.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest
import pytest_asyncio

from cli.child_processes import answers, free_port
from cli.commands import COMMANDS
from cli.demo import install_kinds
from kube.client import Client
from kube.resources import JOBS, NAMESPACES
from localcluster.cluster import LocalCluster

ROOT: Final = Path(__file__).resolve().parents[2]

# Runs a command, then writes the names of all modules into a file.
RUN: Final = """
import json, pathlib, sys
from cli.main import main
code = main(sys.argv[2:])
pathlib.Path(sys.argv[1]).write_text(json.dumps(sorted(sys.modules)))
sys.exit(code)
"""

HEAVY: Final = ("kubernetes", "localcluster")
"""Nothing needs these: plain kubeconfigs are read without the one, the other is not Muster's."""

WEB: Final = ("fastapi", "starlette", "uvicorn")
SERVED: Final = ("aiohttp.web_app", "aiohttp.web_fileresponse")
"""aiohttp's frame for applications: health and metrics do without."""

CLIENT: Final = ("aiohttp", "asyncio", "prometheus_client")
SOLVER: Final = ("numpy", "scheduler.core.place")
PROCESSES: Final = ("webhooks.app", "controllers.app", "scheduler.app", "uvloop")
TERMINAL: Final = ("typer", "rich", "pygments", "colorama", "greenlet")
COLOURS: Final = ("rich", "pygments", "colorama", "greenlet")
"""What structlog prints with where it finds it; nobody who reads a table needs it."""


@dataclass(frozen=True)
class Case:
    """`needed` are a few modules that must be there: the list is that of the real command."""

    arguments: tuple[str, ...]
    needed: tuple[str, ...]
    never: tuple[str, ...]


COMMAND_CASES: Final = {
    "help": Case(
        ("--help",),
        ("typer",),
        (*WEB, *CLIENT, *SOLVER, *PROCESSES, "pydantic", "structlog", "yaml", "cryptography"),
    ),
    "tree": Case(
        ("tree",),
        ("aiohttp", "cli.tree"),
        (
            *WEB,
            *SOLVER,
            *PROCESSES,
            "api.models",
            "structlog",
            "cryptography",
            "scheduler",
            "certs",
        ),
    ),
    "explain": Case(
        ("explain", "job/train"),
        ("aiohttp", *SOLVER),
        (
            *(*WEB, *COLOURS, *PROCESSES),
            *("api.models", "cryptography", "webhooks", "controllers", "certs"),
        ),
    ),
    "simulate": Case(
        ("simulate", "-f", "job.yaml"),
        ("aiohttp", *SOLVER),
        (*WEB, *PROCESSES, "cryptography", "webhooks", "controllers", "certs"),
    ),
    "lab": Case(
        (
            *("lab", "run", "--cluster", f"{ROOT}/examples/lab/team-cluster.yaml"),
            *("--recipe", f"{ROOT}/examples/lab/team-week.yaml", "--until", "1h"),
        ),
        ("lab.simulation", *SOLVER),
        (*WEB, *PROCESSES, "matplotlib", "cryptography", "webhooks", "controllers", "certs"),
    ),
    "snapshot": Case(
        ("snapshot", "snapshot.bin"),
        ("aiohttp", "scheduler.snapshot"),
        (*WEB, *PROCESSES, "api.models", "cryptography", "webhooks", "controllers", "certs"),
    ),
    "doctor": Case(
        ("doctor",),
        ("aiohttp", "cryptography"),
        (*WEB, *COLOURS, *SOLVER, *PROCESSES, "api.models", "controllers"),
    ),
    "support-bundle": Case(
        ("support-bundle", "bundle.tar.gz"),
        ("aiohttp", "cli.support_bundle"),
        (*WEB, *PROCESSES, "controllers"),
    ),
    "manifests": Case(
        ("manifests",),
        ("webhooks.registration",),
        (*WEB, *SOLVER, *PROCESSES, "aiohttp", "api.models", "controllers"),
    ),
    "gc": Case(
        ("gc",),
        ("aiohttp", "controllers.orphans"),
        (*WEB, *SOLVER, *PROCESSES, "api.models", "cryptography", "webhooks", "certs"),
    ),
    "uninstall": Case(
        ("uninstall", "--dry-run"),
        ("aiohttp", "cli.uninstall.plan"),
        (*WEB, *SOLVER, *PROCESSES, "api.models", "controllers"),
    ),
}

PROCESS_CASES: Final = {
    "webhook": Case(
        ("webhook",),
        ("starlette", "webhooks.app"),
        (*TERMINAL, *SERVED, *SOLVER, "controllers", "scheduler.app"),
    ),
    "controller": Case(
        ("controller",),
        ("aiohttp", "controllers.app"),
        (*TERMINAL, *SERVED, *WEB, *SOLVER, "pydantic", "cryptography", "certs", "webhooks"),
    ),
    "scheduler": Case(
        ("scheduler",),
        ("scheduler.app", *SOLVER),
        (*TERMINAL, *SERVED, *WEB, "pydantic", "cryptography", "certs", "webhooks", "controllers"),
    ),
}

# `replay` reads what `snapshot` wrote, and `console` runs until it is ended: they have tests below.
# The others run the embedded cluster.
ELSEWHERE: Final = {"replay", "console", "demo", "localcluster"}


pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def kubeconfig() -> AsyncIterator[Path]:
    """Of a cluster with Muster's kinds and one Job, for all commands."""
    async with LocalCluster() as cluster:
        async with await Client.connect(cluster.kubeconfig) as client:
            await client.create(NAMESPACES, {"metadata": {"name": "muster-system"}})
            await install_kinds(client)
            await client.create(JOBS, JOB)
        yield cluster.kubeconfig


JOB: Final = {
    "apiVersion": "batch/v1",
    "kind": "Job",
    "metadata": {"name": "train", "namespace": "default"},
    "spec": {
        "template": {
            "spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}
        }
    },
}


async def test_every_command_is_in_the_table() -> None:
    assert COMMANDS.keys() - ELSEWHERE == COMMAND_CASES.keys() - {"help"}


@pytest.mark.parametrize("name", COMMAND_CASES)
async def test_a_command_imports_what_it_needs(name: str, kubeconfig: Path, tmp_path: Path) -> None:
    case = COMMAND_CASES[name]
    (tmp_path / "job.yaml").write_text(json.dumps(JOB))

    loaded = await modules(case.arguments, kubeconfig, tmp_path)

    assert_only(case, loaded)


async def test_a_replay_needs_no_client_of_a_cluster(kubeconfig: Path, tmp_path: Path) -> None:
    await modules(("snapshot", "snapshot.bin"), kubeconfig, tmp_path)
    case = Case(
        ("replay", "snapshot.bin"), SOLVER, (*WEB, *PROCESSES, "api.models", "cryptography")
    )

    assert_only(case, await modules(case.arguments, kubeconfig, tmp_path))


async def test_the_console_has_no_part_of_the_processes(kubeconfig: Path, tmp_path: Path) -> None:
    case = Case(
        ("console", "--no-browser", "--port", str(free_port())),
        ("starlette", "uvicorn", "console.server", *SOLVER),
        (*PROCESSES[:3], "api.models", "fastapi", "webhooks", "controllers", "certs", "lab"),
    )

    async def until_served(process: asyncio.subprocess.Process) -> None:
        served = answers(f"http://127.0.0.1:{case.arguments[-1]}/")
        while not await served():
            assert process.returncode is None
            await asyncio.sleep(0.05)  # it is asked, as its output is read at the end
        process.send_signal(signal.SIGTERM)

    assert_only(case, await modules(case.arguments, kubeconfig, tmp_path, meanwhile=until_served))


@pytest.mark.parametrize("name", PROCESS_CASES)
async def test_a_process_imports_what_it_needs(name: str, kubeconfig: Path, tmp_path: Path) -> None:
    case, health = PROCESS_CASES[name], free_port()
    arguments = [*case.arguments, "--health", f"127.0.0.1:{health}"]
    if name == "webhook":
        arguments += ["--url", f"https://127.0.0.1:{free_port()}"]

    async def until_ready(process: asyncio.subprocess.Process) -> None:
        ready = answers(f"http://127.0.0.1:{health}/readyz")
        while not await ready():
            assert process.returncode is None
            await asyncio.sleep(0.05)  # it does not say when it is ready: it is asked
        process.send_signal(signal.SIGTERM)

    assert_only(case, await modules(arguments, kubeconfig, tmp_path, meanwhile=until_ready))


async def modules(
    arguments: tuple[str, ...] | list[str],
    kubeconfig: Path,
    folder: Path,
    meanwhile: Callable[[asyncio.subprocess.Process], Awaitable[None]] | None = None,
) -> set[str]:
    """The names of all modules that were there when the command had ended."""
    file = folder / "modules.json"
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", RUN, str(file), *arguments,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT), "KUBECONFIG": str(kubeconfig)},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )  # fmt: skip
    output = asyncio.ensure_future(process.communicate())
    if meanwhile is not None:
        await meanwhile(process)
    said, _ = await output
    assert file.exists(), said.decode()
    return set(json.loads(file.read_text()))


def assert_only(case: Case, loaded: set[str]) -> None:
    assert sorted(set(case.needed) - loaded) == []
    assert sorted(loaded.intersection({*HEAVY, *case.never})) == []
