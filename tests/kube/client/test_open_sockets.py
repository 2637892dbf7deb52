"""No socket outlives its client, whatever the server does."""

import asyncio
import contextlib
import socket
import ssl
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import aclosing
from pathlib import Path

import pytest
import yaml

from e2e.harness.support.rest import Rest
from kube.client.client import Client
from kube.client.open_sockets import OpenSockets
from tests.support.api_server import server_certificate

ANSWER = b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 3\r\n\r\n{}\n"


@pytest.fixture
def silent_server(tmp_path: Path) -> Iterator[Path]:
    """The kubeconfig of a server that responds once per connection and never closes it."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(server_certificate())
    held: list[ssl.SSLSocket] = []
    listening = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        with contextlib.suppress(OSError):
            while True:
                raw, _ = listening.accept()
                accepted = context.wrap_socket(raw, server_side=True)
                held.append(accepted)
                accepted.recv(65536)
                accepted.sendall(ANSWER)

    thread = threading.Thread(target=serve)
    thread.start()
    yield _kubeconfig(tmp_path, listening.getsockname()[1])
    listening.shutdown(socket.SHUT_RDWR)
    thread.join()
    for each in [listening, *held]:
        each.close()


def _kubeconfig(folder: Path, port: int) -> Path:
    at = {"server": f"https://127.0.0.1:{port}", "certificate-authority": server_certificate()}
    path = folder / "kubeconfig"
    written = {
        "current-context": "it",
        "contexts": [{"name": "it", "context": {"cluster": "it", "user": "it"}}],
        "clusters": [{"name": "it", "cluster": at}],
        "users": [{"name": "it", "user": {"token": "t"}}],
    }
    path.write_text(yaml.safe_dump(written))
    return path


async def _ask(kubeconfig: Path) -> None:
    async with Rest.open(kubeconfig) as rest:
        (await rest.get("/")).ok()


async def _watch(kubeconfig: Path) -> None:
    async with (
        await Client.connect(kubeconfig) as client,
        aclosing(client.watch_lines("/", {})) as lines,
    ):
        await anext(lines)


@pytest.mark.parametrize("use", [_ask, _watch])
def test_none_is_open_when_the_loop_ends(
    silent_server: Path, use: Callable[[Path], Awaitable[None]], monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[socket.socket] = []
    create = OpenSockets.create

    def noted(self: OpenSockets, info: tuple[object, ...]) -> socket.socket:
        made.append(create(self, info))  # type: ignore[arg-type]
        return made[-1]

    monkeypatch.setattr(OpenSockets, "create", noted)

    async def run() -> None:
        await use(silent_server)

    asyncio.run(run())

    assert [each.fileno() for each in made] == [-1]
