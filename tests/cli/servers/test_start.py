"""The imports of each command or process: only what it needs, because imports delay the start.

Each one runs to its end on an embedded cluster, so that late imports are found too.
"""

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest
import pytest_asyncio

from cli.commands import COMMANDS
from cli.demo.demo import install_kinds
from cli.servers.child_processes import free_port, responds
from kube.client.client import Client
from kube.client.resources import JOBS, NAMESPACES
from localcluster.cluster import LocalCluster
from tools.testing.effort import selected

ROOT: Final = Path(__file__).resolve().parents[3]

COMMON: Final = (
    "typer",
    "aiohttp",
    "numpy",
    "scheduler.core.search.place",
    "scheduler.snapshot.snapshot",
)
"""The modules that a parent loads once for all commands that need them."""

# Forks for each line on its standard input: the child runs a command, then lists all modules.
PARENT: Final = """
import importlib, json, os, pathlib, sys
for name in sys.argv[1:]:
    importlib.import_module(name)
for line in sys.stdin:
    folder, *arguments = json.loads(line)
    child = os.fork()
    if child == 0:
        os.chdir(folder)
        sys.stdout = sys.stderr = open("said", "w", buffering=1)
        from cli.main import main
        code = main(arguments)
        pathlib.Path("modules.json").write_text(json.dumps(sorted(sys.modules)))
        os._exit(code)
    print(child, flush=True)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""

HEAVY: Final = ("kubernetes", "localcluster")
"""Modules that no command needs: a client library and the embedded cluster.

Plain kubeconfigs are read without the client library; the cluster is not a part of Muster.
"""

WEB: Final = ("fastapi", "starlette", "uvicorn")
SERVED: Final = ("aiohttp.web_app", "aiohttp.web_fileresponse")
"""aiohttp's application framework, which health and metrics do not use."""

CLIENT: Final = ("aiohttp", "asyncio", "prometheus_client")
SOLVER: Final = ("numpy", "scheduler.core.search.place")
SNAPSHOT: Final = (*SOLVER, "scheduler.snapshot.snapshot")
PROCESSES: Final = ("webhooks.app", "controllers.app", "scheduler.app", "uvloop")
TERMINAL: Final = ("typer", "rich", "pygments", "colorama", "greenlet")
COLOURS: Final = ("rich", "pygments", "colorama", "greenlet")
"""The optional packages with which structlog prints; a table's readers need none of them."""


@dataclass(frozen=True)
class Case:
    """A command; `needed` are a few modules that must be loaded, to prove that it ran.

    Its parent loads those of them that are COMMON.
    """

    arguments: tuple[str, ...]
    needed: tuple[str, ...]
    never: tuple[str, ...]


COMMAND_CASES: Final = {
    "help": Case(
        ("--help",),
        ("typer", "cli.commands"),
        (*WEB, *CLIENT, *SOLVER, *PROCESSES, "pydantic", "structlog", "yaml", "cryptography"),
    ),
    "tree": Case(
        ("tree",),
        ("typer", "aiohttp", "cli.trees.tree"),
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
        ("typer", "aiohttp", *SNAPSHOT, "analysis.explain.explain"),
        (
            *WEB,
            *COLOURS,
            *PROCESSES,
            "api.models",
            "cryptography",
            "webhooks",
            "controllers",
            "certs",
        ),
    ),
    "simulate": Case(
        ("simulate", "-f", "job.yaml"),
        ("typer", "aiohttp", *SNAPSHOT, "analysis.simulate.simulate"),
        (*WEB, *PROCESSES, "cryptography", "webhooks", "controllers", "certs"),
    ),
    "fit": Case(
        ("fit", "-f", "job.yaml"),
        ("typer", "aiohttp", *SNAPSHOT, "analysis.fit.fit"),
        (*WEB, *PROCESSES, "cryptography", "webhooks", "controllers", "certs"),
    ),
    "defrag": Case(
        ("defrag", "job/train"),
        ("typer", "aiohttp", *SNAPSHOT, "analysis.defrag.defrag"),
        (*WEB, *PROCESSES, "api.models", "cryptography", "webhooks", "controllers", "certs"),
    ),
    "lab": Case(
        (
            *("lab", "run", "--cluster", f"{ROOT}/examples/lab/team-cluster.yaml"),
            *("--recipe", f"{ROOT}/examples/lab/team-week.yaml", "--until", "1h"),
        ),
        ("typer", "analysis.lab.simulation", *SOLVER),
        (*WEB, *PROCESSES, "matplotlib", "cryptography", "webhooks", "controllers", "certs"),
    ),
    "snapshot": Case(
        ("snapshot", "snapshot.bin"),
        ("typer", "aiohttp", *SNAPSHOT, "cli.commands.snapshots"),
        (*WEB, *PROCESSES, "api.models", "cryptography", "webhooks", "controllers", "certs"),
    ),
    "doctor": Case(
        ("doctor",),
        ("typer", "aiohttp", "cryptography"),
        (*WEB, *COLOURS, *SOLVER, *PROCESSES, "api.models", "controllers"),
    ),
    "support-bundle": Case(
        ("support-bundle", "bundle.tar.gz"),
        ("typer", "aiohttp", *SNAPSHOT, "cli.support.support_bundle"),
        (*WEB, *PROCESSES, "controllers"),
    ),
    "manifests": Case(
        ("manifests",),
        ("typer", "webhooks.server.registration"),
        (*WEB, *SOLVER, *PROCESSES, "aiohttp", "api.models", "controllers"),
    ),
    "gc": Case(
        ("gc",),
        ("typer", "aiohttp", "controllers.cleanup.orphans"),
        (*WEB, *SOLVER, *PROCESSES, "api.models", "cryptography", "webhooks", "certs"),
    ),
    "label-nodes": Case(
        ("label-nodes",),
        ("typer", "aiohttp", "cli.topology.hyper_nodes"),
        (*WEB, *SOLVER, *PROCESSES, "api.models", "cryptography", "webhooks", "controllers"),
    ),
    "uninstall": Case(
        ("uninstall", "--dry-run"),
        ("typer", "aiohttp", "cli.uninstall.plan"),
        (*WEB, *SOLVER, *PROCESSES, "api.models", "controllers"),
    ),
}

PROCESS_CASES: Final = {
    "webhook": Case(
        ("webhook",),
        ("aiohttp", "starlette", "webhooks.app"),
        (*TERMINAL, *SERVED, *SOLVER, "controllers", "scheduler.app"),
    ),
    "controller": Case(
        ("controller",),
        ("aiohttp", "controllers.app"),
        (*TERMINAL, *SERVED, *WEB, *SOLVER, "pydantic", "cryptography", "certs", "webhooks"),
    ),
    "scheduler": Case(
        ("scheduler",),
        ("aiohttp", "scheduler.app", *SNAPSHOT),
        (*TERMINAL, *SERVED, *WEB, "pydantic", "cryptography", "certs", "webhooks", "controllers"),
    ),
}

PROCESS_CASES["all"] = Case(
    ("all",), tuple(n for case in PROCESS_CASES.values() for n in case.needed), (*TERMINAL, *SERVED)
)

# `replay` reads the output of `snapshot`, and `console` runs until it is stopped: they have tests
# below. Two others run the embedded cluster, and `version` reads none.
ELSEWHERE: Final = {"replay", "console", "demo", "localcluster", "version"}


pytestmark = pytest.mark.asyncio(loop_scope="module")


@dataclass
class Parents:
    """One process for each set of modules that are loaded before the command runs."""

    kubeconfig: Path
    running: dict[tuple[str, ...], asyncio.subprocess.Process]

    async def run(self, case: Case, folder: Path, *more: str, until: str = "") -> None:
        """Fail if the command loads too much. End one that serves the URL `until` then."""
        common = tuple(name for name in COMMON if name in case.needed)
        if common not in self.running:
            self.running[common] = await self._started(common)
        parent = self.running[common]
        assert parent.stdin is not None
        assert parent.stdout is not None
        parent.stdin.write(json.dumps([str(folder), *case.arguments, *more]).encode() + b"\n")
        child = int(await parent.stdout.readline())
        ended = asyncio.ensure_future(parent.stdout.readline())
        if until:
            served = responds(until)
            while not await served():
                assert not ended.done(), (folder / "said").read_text()
                await asyncio.sleep(0.05)  # it does not report readiness, so poll it
            os.kill(child, signal.SIGTERM)
            assert int(await ended) == 0
        await ended
        assert (folder / "modules.json").exists(), (folder / "said").read_text()
        loaded = set(json.loads((folder / "modules.json").read_text()))
        assert sorted(set(case.needed) - loaded) == []
        assert sorted(loaded.intersection({*HEAVY, *case.never})) == []

    async def _started(self, common: tuple[str, ...]) -> asyncio.subprocess.Process:
        ours = {"PYTHONPATH": str(ROOT), "KUBECONFIG": str(self.kubeconfig)}
        return await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", PARENT, *common),
            env={**os.environ, **ours, "OPENBLAS_NUM_THREADS": "1"},
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
        )

    async def end(self) -> None:
        for parent in self.running.values():
            await parent.communicate(b"")  # without input its standard input stays open


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def parents() -> AsyncIterator[Parents]:
    """The parents on a cluster with Muster's kinds and one Job, for all commands."""
    async with LocalCluster() as cluster:
        async with await Client.connect(cluster.kubeconfig) as client:
            await client.create(NAMESPACES, {"metadata": {"name": "muster-system"}})
            await install_kinds(client)
            await client.create(JOBS, JOB)
        made = Parents(cluster.kubeconfig, {})
        yield made
        await made.end()


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


@pytest.mark.parametrize(
    "name", selected({it: it for it in COMMAND_CASES}, {"help", "explain", "manifests", "doctor"})
)
async def test_a_command_imports_what_it_needs(name: str, parents: Parents, tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_text(json.dumps(JOB))

    await parents.run(COMMAND_CASES[name], tmp_path)


async def test_a_replay_needs_no_client_of_a_cluster(parents: Parents, tmp_path: Path) -> None:
    await parents.run(COMMAND_CASES["snapshot"], tmp_path)
    never = (*WEB, *PROCESSES, "api.models", "cryptography")

    await parents.run(Case(("replay", "snapshot.bin"), ("typer", *SNAPSHOT), never), tmp_path)


async def test_the_console_has_no_part_of_the_processes(parents: Parents, tmp_path: Path) -> None:
    port = str(free_port())
    case = Case(
        ("console", "--no-browser", "--port", port),
        ("typer", "aiohttp", *WEB, "console.serving.server", *SNAPSHOT),
        (*PROCESSES[:3], "webhooks", "controllers", "certs", "lab"),
    )

    await parents.run(case, tmp_path, until=f"http://127.0.0.1:{port}/")


@pytest.mark.parametrize(
    "name", ["webhook", "controller", "scheduler", pytest.param("all", marks=pytest.mark.long)]
)
async def test_a_process_imports_what_it_needs(name: str, parents: Parents, tmp_path: Path) -> None:
    health = f"127.0.0.1:{free_port()}"
    url = ("--url", f"https://127.0.0.1:{free_port()}") if name in {"webhook", "all"} else ()
    ready = f"http://{health}/readyz"

    await parents.run(PROCESS_CASES[name], tmp_path, "--health", health, *url, until=ready)


# A process that is still importing: the signal arrives before the rest of the program is read.
IMPORTS: Final = """
import os, signal, sys
from importlib.abc import MetaPathFinder

class Slow(MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name == "cli.main":
            os.kill(os.getpid(), signal.SIGTERM)
            signal.pause()

import cli.__main__
sys.meta_path.insert(0, Slow())
sys.exit(cli.__main__.main())
"""


async def test_a_process_that_is_still_starting_ends_on_sigterm() -> None:
    child = await asyncio.create_subprocess_exec(sys.executable, "-c", IMPORTS, cwd=ROOT)

    assert await child.wait() == 128 + signal.SIGTERM
