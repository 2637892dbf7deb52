"""Keeps a real control plane running in the background: `python -m e2e.harness.controlplane.up`.

The kubeconfig is at .cache/controlplane/kubeconfig, logs are in .cache/controlplane/logs; `python
-m e2e.harness.controlplane.down` stops it. `--foreground --dir DIR` runs a separate one until
Ctrl-C, alongside any other.
"""

import argparse
import asyncio
import os
import shutil
import signal
import subprocess
import sys
import time
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path

from e2e.harness.controlplane import build
from e2e.harness.controlplane.commands import Options
from e2e.harness.controlplane.controlplane import ControlPlane
from e2e.harness.controlplane.down import MODULE, running
from e2e.harness.controlplane.errors import BuildError
from e2e.harness.controlplane.places import CACHE, KUBECONFIG, LOGS, PID, ROOT
from e2e.harness.muster import ALL, Muster


@dataclass(frozen=True, slots=True)
class Wanted:
    """The parts to run: the control plane's options, initial nodes, and optionally Muster."""

    options: Options
    nodes: int
    muster: bool


async def serve(folder: Path, logs: Path, wanted: Wanted) -> None:
    """Run a control plane in `folder` until SIGTERM or SIGINT; create READY once it serves."""
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    started = time.monotonic()
    async with AsyncExitStack() as stack:
        plane = ControlPlane(wanted.options, folder=folder, logs=logs)
        await stack.enter_async_context(plane)
        for index in range(wanted.nodes):
            await plane.add_node(f"node-{index}", wait=False)
        if wanted.muster:
            muster = Muster(plane.kubeconfig, logs=logs)
            stack.callback(muster.stop)
            await muster.install()
            await muster.start(*ALL)
        (folder / "READY").touch()
        seconds = time.monotonic() - started
        print(f"ready in {seconds:.1f} s: export KUBECONFIG={plane.kubeconfig}", flush=True)
        await stop.wait()


def start_in_background(arguments: list[str]) -> int:
    """Start `serve` detached, in the fixed places, and wait until it is ready."""
    if (pid := running()) is not None:
        print(f"a control plane runs already (pid {pid}): {KUBECONFIG}")
        return 0
    build.build()
    folder = CACHE / "run"
    shutil.rmtree(folder, ignore_errors=True)
    LOGS.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", MODULE, "--foreground", "--dir", str(folder)]
    command += ["--logs", str(LOGS)]
    with (LOGS / "up.log").open("wb") as log:
        child = subprocess.Popen(
            [*command, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            cwd=ROOT,
            start_new_session=True,
        )
    PID.write_text(str(child.pid))
    while not (folder / "READY").exists():
        if child.poll() is not None:
            print((LOGS / "up.log").read_text(), file=sys.stderr)
            PID.unlink()
            return 1
        time.sleep(0.1)
    shutil.copyfile(folder / "kubeconfig", KUBECONFIG)
    KUBECONFIG.chmod(0o600)
    print(f"the control plane is up (pid {child.pid}): export KUBECONFIG={KUBECONFIG}")
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--foreground", action="store_true")
    parser.add_argument("--dir", type=Path, default=CACHE / "run", help="data, kubeconfig, logs")
    parser.add_argument("--logs", type=Path, help="where logs go, if not into the directory")
    parser.add_argument("--muster", action="store_true", help="Muster's processes too")
    parser.add_argument("--nodes", type=int, default=0, help="nodes of 8 CPUs to begin with")
    parser.add_argument("--scheduler", action="store_true", help="kube-scheduler too")
    parser.add_argument("--no-jobset", action="store_true", help="without the JobSet controller")
    parsed = parser.parse_args()
    try:
        if not parsed.foreground:
            own = {"--foreground", "--dir", str(parsed.dir)}
            return start_in_background([word for word in sys.argv[1:] if word not in own])
        parsed.dir.mkdir(parents=True, exist_ok=True)
        options = Options(scheduler=parsed.scheduler, jobset=not parsed.no_jobset)
        folder = parsed.dir.resolve()
        wanted = Wanted(options, parsed.nodes, parsed.muster)
        asyncio.run(serve(folder, (parsed.logs or folder / "logs").resolve(), wanted))
    except BuildError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    os.umask(0o077)
    sys.exit(main())
