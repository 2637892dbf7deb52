"""Links: which bytes arrive after a cut, and which server gets the next connection."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from e2e.harness.support import ports
from e2e.harness.support.forwarder import Direction, Forwarder


class Echo:
    """A server that keeps what it gets, and sends it back with its name."""

    def __init__(self, name: bytes) -> None:
        (self.port,) = ports.free(1)
        self.got = b""
        self._name = name
        self._changed = asyncio.Event()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while chunk := await reader.read(100):
            self.got += chunk
            self._changed.set()
            writer.write(self._name + chunk)
        writer.transport.abort()

    async def gets(self, text: bytes) -> None:
        """Wait until it got exactly this."""
        while self.got != text:
            self._changed.clear()
            await self._changed.wait()


class Talk:
    """A connection through a link."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self.writer = writer

    def say(self, text: bytes) -> None:
        self.writer.write(text)

    async def hears(self, text: bytes) -> None:
        assert await self._reader.readexactly(len(text)) == text

    async def heard(self, count: int) -> bytes:
        return await self._reader.readexactly(count)

    async def rest(self) -> bytes:
        """Return what arrives before the connection ends."""
        try:
            return await self._reader.read()
        except ConnectionResetError:
            return b""

    def give_up(self) -> None:
        self.writer.transport.abort()


@asynccontextmanager
async def linked(*servers: Echo, down: tuple[Echo, ...] = ()) -> AsyncIterator[Forwarder]:
    started = [await asyncio.start_server(it.serve, "127.0.0.1", it.port) for it in servers]
    link = Forwarder(*(it.port for it in (*down, *servers)))
    await link.start()
    try:
        yield link
    finally:
        await link.stop()
        for server in started:
            server.close()


@asynccontextmanager
async def connected(link: Forwarder) -> AsyncIterator[Talk]:
    talk = Talk(*await asyncio.open_connection("127.0.0.1", link.port))
    try:
        yield talk
    finally:
        talk.give_up()


async def test_a_cut_delays_what_a_client_still_waits_for() -> None:
    server = Echo(b"s")
    async with linked(server) as link, connected(link) as client:
        client.say(b"1")
        await client.hears(b"s1")
        link.freeze(directions=[Direction.REQUESTS])
        client.say(b"2")
        await asyncio.sleep(0.05)
        assert server.got == b"1"
        link.thaw()
        await client.hears(b"s2")


async def test_what_a_client_gave_up_during_a_cut_never_arrives() -> None:
    server = Echo(b"s")
    async with linked(server) as link, connected(link) as client:
        client.say(b"1")
        await client.hears(b"s1")
        link.freeze()
        client.say(b"late")
        await asyncio.sleep(0.05)
        client.give_up()
        await asyncio.sleep(0.05)
        link.thaw()
        async with connected(link) as other:
            other.say(b"2")
            await other.hears(b"s2")

        assert server.got == b"12"


async def test_requests_arrive_while_responses_are_lost() -> None:
    server = Echo(b"s")
    async with linked(server) as link, connected(link) as client:
        client.say(b"1")
        await client.hears(b"s1")
        link.freeze(directions=[Direction.RESPONSES])
        client.say(b"2")
        await server.gets(b"12")
        link.thaw()
        await client.hears(b"s2")


async def test_servers_take_turns_without_those_that_refuse() -> None:
    down, first, second = Echo(b"d"), Echo(b"f"), Echo(b"s")
    async with linked(first, second, down=(down,)) as link:
        names = set()
        for _ in range(6):
            async with connected(link) as client:
                client.say(b"1")
                names.add(await client.heard(2))

    assert names == {b"f1", b"s1"}


async def test_a_cut_from_one_server_leaves_the_others() -> None:
    first, second = Echo(b"f"), Echo(b"s")
    async with linked(first, second) as link, connected(link) as one, connected(link) as other:
        for client in (one, other):
            client.say(b"1")
            await client.heard(2)
        assert link.connections(first.port) == link.connections(second.port) == 1
        link.freeze(first.port)
        for client in (one, other):
            client.say(b"2")
        await second.gets(b"12")

        assert first.got == b"1"


async def test_a_slow_link_delivers_later_and_a_reset_ends_connections() -> None:
    server = Echo(b"s")
    async with linked(server) as link, connected(link) as client:
        began = asyncio.get_running_loop().time()
        link.slow(delay=0.1)
        client.say(b"1")
        await client.hears(b"s1")
        assert asyncio.get_running_loop().time() - began >= 0.2
        link.reset()
        assert await client.rest() == b""
