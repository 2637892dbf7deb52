"""The listener: a socket, TLS, uvicorn in the running loop, and a kubeconfig for clients."""

import asyncio
import base64
import contextlib
import socket
from collections.abc import Iterator
from pathlib import Path

import uvicorn
import yaml

from localcluster.base.tls import ServerFiles
from localcluster.http.server import Application

NEVER = 24 * 3600


class _Server(uvicorn.Server):
    """A uvicorn server that installs no signal handlers."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


class Listener:
    """One HTTPS address that serves an application until stopped."""

    def __init__(self, application: Application, files: ServerFiles) -> None:
        """Create a listener for the application with its certificate."""
        self._config = uvicorn.Config(
            application,
            ssl_certfile=files.certificate,
            ssl_keyfile=files.key,
            http="httptools",
            ws="none",
            lifespan="off",
            access_log=False,
            log_config=None,
            server_header=False,
            proxy_headers=False,
            timeout_keep_alive=NEVER,
            timeout_graceful_shutdown=1,
            backlog=4096,
        )
        self._server: _Server | None = None
        self._task: asyncio.Task[None] | None = None

    async def start(self, host: str, port: int) -> int:
        """Listen and return the port. Raises OSError if it is in use."""
        sock = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            sock.bind((host, port))
        except OSError:
            sock.close()
            raise
        self._server = _Server(self._config)
        self._task = asyncio.create_task(self._server.serve([sock]), name="https")
        while not self._server.started:
            if self._task.done():
                await self._task
            await asyncio.sleep(0.001)
        bound: int = sock.getsockname()[1]
        return bound

    async def stop(self) -> None:
        """Close all connections."""
        if self._server is None or self._task is None:
            return
        self._server.should_exit = True
        await self._task
        self._server = self._task = None


def kubeconfig(server: str, ca: bytes, token: str) -> str:
    """Return a kubeconfig with one cluster and one user."""
    name = "localcluster"
    authority = base64.b64encode(ca).decode()
    return yaml.safe_dump(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [
                {
                    "name": name,
                    "cluster": {"server": server, "certificate-authority-data": authority},
                }
            ],
            "users": [{"name": name, "user": {"token": token}}],
            "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
            "current-context": name,
        },
        sort_keys=False,
    )


def write_private(path: Path, text: str) -> None:
    """Write a file that only its owner can read, atomically."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(path.name + ".new")
    draft.touch(mode=0o600)
    draft.write_text(text)
    draft.replace(path)
