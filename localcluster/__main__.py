"""`python -m localcluster`: run the embedded cluster until it receives a signal."""

import argparse
import asyncio
import gc
import signal
from pathlib import Path

import uvloop

from localcluster.cluster import LocalCluster


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="localcluster", description=__doc__)
    parser.add_argument("--kubeconfig", type=Path, required=True, help="where to write it")
    parser.add_argument("--host", default="127.0.0.1", help="the address to listen on")
    parser.add_argument("--port", type=int, default=0, help="0 for any free port")
    parser.add_argument(
        "--token-file", type=Path, action="append", default=[], help="token,user,uid,groups lines"
    )
    parser.add_argument("--audit-log", type=Path, help="a line of JSON for each request")
    parser.add_argument(
        "--saved", type=Path, help="start from this file if it is there; written at the end"
    )
    parser.add_argument("--no-jobset", action="store_true", help="leave JobSet out")
    parser.add_argument(
        "--jobset-scaling",
        action="store_true",
        help="let replicas and parallelism of JobSets change, which JobSet v0.11.0 refuses",
    )
    return parser.parse_args()


async def _run(arguments: argparse.Namespace) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    cluster = LocalCluster(
        jobset=not arguments.no_jobset,
        jobset_scaling=arguments.jobset_scaling,
        audit_log=arguments.audit_log,
        saved=arguments.saved,
    )
    await cluster.start(
        host=arguments.host,
        port=arguments.port,
        kubeconfig=arguments.kubeconfig,
        token_files=arguments.token_file,
    )
    try:
        await stop.wait()
    finally:
        await cluster.stop()


def main() -> None:
    """Run until SIGINT or SIGTERM."""
    # Most objects here are long-lived. Collecting the young generation less often saves time at no
    # cost.
    gc.set_threshold(50_000, 20, 100)
    uvloop.run(_run(_arguments()))


if __name__ == "__main__":
    main()
