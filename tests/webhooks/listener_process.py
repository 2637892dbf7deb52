"""The listener in a separate process, to measure its memory; it prints its port."""

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import uvloop

ROOT = Path(__file__).parents[2]


@contextmanager
def served() -> Iterator[tuple[tuple[str, int], int]]:
    """Run the listener; yields its address and process ID."""
    command = [sys.executable, "-m", "tests.webhooks.listener_process"]
    with subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        try:
            assert process.stdout is not None
            port = next(int(line) for line in process.stdout if line.strip().isdecimal())
            yield ("127.0.0.1", port), process.pid
        finally:
            process.kill()


async def main() -> None:
    """Listen until killed."""
    from tests.webhooks.server.test_hostile_clients import listening

    async with listening() as (_, port):
        sys.stdout.write(f"{port}\n")
        sys.stdout.flush()
        await asyncio.Event().wait()


if __name__ == "__main__":
    uvloop.run(main())  # as the process does
