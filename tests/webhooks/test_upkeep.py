"""Certificates and registration kept right while a listener serves."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from certs.authority import CA_VALID, SERVER_VALID, new_material, renewed_server
from certs.bundle import encoded
from certs.context import client_context, server_context
from certs.material import Material, ServerNames
from certs.renewal import AHEAD
from certs.stores import FolderStore, Held
from kube.errors import Unreachable
from tests.webhooks.clock import REAL_NOW, DatedClock
from tests.webhooks.registry import Registry
from tests.webhooks.reviews import FakeWorld
from webhooks.readiness import REGISTRATION, Readiness
from webhooks.registration import Registered, ServiceTarget, Target, UrlTarget, load_manifests
from webhooks.reviewer import Reviewer
from webhooks.routes import build
from webhooks.selfcheck import SelfCheckError, check
from webhooks.server import Listener, bound
from webhooks.upkeep import SETTLED_SECONDS, Upkeep

URL = UrlTarget("https://127.0.0.1:9443")
AWAY = Unreachable("GET", "/apis", "refused")
MINUTE = timedelta(minutes=1)


@dataclass
class Kept:
    """A listener under upkeep."""

    registry: Registry
    readiness: Readiness
    clock: DatedClock
    store: FolderStore
    address: tuple[str, int]

    async def next_round(self) -> None:
        """Wake the upkeep and wait until it sleeps again."""
        await self.clock.advance_to_next()
        await self.clock.sleeping()

    @property
    def problem(self) -> str:
        return self.readiness.problems.get(REGISTRATION, "")

    async def material(self) -> Material:
        found = (await self.store.read()).material
        assert found is not None
        return found

    async def served(self, ca_bundle: bytes) -> bytes:
        """The certificate (DER) that a new connection is shown."""
        _, writer = await asyncio.open_connection(*self.address, ssl=client_context(ca_bundle))
        der: bytes = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
        writer.close()
        return der


@asynccontextmanager
async def kept(
    folder: Path,
    *,
    target: Target = URL,
    begin: datetime = REAL_NOW,
    registry: Registry | None = None,
    material: Material | None = None,
) -> AsyncIterator[Kept]:
    """A listener whose upkeep has done its first round."""
    clock = DatedClock(begin)
    registry = registry or Registry()
    readiness = Readiness((REGISTRATION,))
    store = FolderStore(folder)
    if material is not None:
        assert await store.write(material, over=Held(None))
    upkeep = Upkeep(registry, target, store, clock, readiness)
    serving = await upkeep.certificates()
    context = server_context(serving)
    with bound("127.0.0.1", 0) as sock:
        async with Listener(build(Reviewer(FakeWorld()), readiness), context, sock) as listener:
            task = asyncio.create_task(upkeep.run(context, serving, listener.address))
            await clock.sleeping()
            yield Kept(registry, readiness, clock, store, listener.address)
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task


def der_of(pem: bytes) -> bytes:
    return ssl.PEM_cert_to_DER_cert(pem.decode())


async def test_one_round_registers_and_makes_ready(tmp_path: Path) -> None:
    async with kept(tmp_path) as hook:
        assert hook.readiness.ready
        assert len(hook.registry.objects) == 2


async def test_a_ca_that_someone_changed_is_repaired_in_the_next_round(tmp_path: Path) -> None:
    async with kept(tmp_path) as hook:
        config = hook.registry.webhooks()[0]["clientConfig"]
        right = config["caBundle"]
        config["caBundle"] = "b2xk"
        await hook.next_round()

        assert hook.registry.webhooks()[0]["clientConfig"]["caBundle"] == right
        assert hook.readiness.ready


async def test_a_server_certificate_is_renewed_while_serving(tmp_path: Path) -> None:
    begin = REAL_NOW - MINUTE
    old = new_material(URL.names, begin - (SERVER_VALID - AHEAD) + MINUTE)
    async with kept(tmp_path, begin=begin, material=old) as hook:
        await hook.next_round()
        same = await hook.material()
        hook.clock.jump(60)
        await hook.next_round()
        new = await hook.material()

        assert same == old
        assert new.server_cert != old.server_cert
        assert await hook.served(old.ca_cert) == der_of(new.server_cert)
        assert hook.readiness.ready


async def test_a_renewed_ca_is_trusted_beside_the_old_one(tmp_path: Path) -> None:
    begin = REAL_NOW - MINUTE
    aged = new_material(URL.names, begin - (CA_VALID - AHEAD) + MINUTE / 2)
    old = renewed_server(aged, URL.names, begin)
    async with kept(tmp_path, begin=begin, material=old) as hook:
        assert await hook.served(old.ca_cert) == der_of(old.server_cert)
        hook.clock.jump(60)
        await hook.next_round()
        new = await hook.material()

        assert new.ca_bundle == new.ca_cert + old.ca_cert
        assert {w["clientConfig"]["caBundle"] for w in hook.registry.webhooks()} == {
            encoded(new.ca_bundle)
        }
        assert await hook.served(new.ca_cert) == der_of(new.server_cert)
        assert hook.readiness.ready


async def test_certificates_that_another_replica_made_are_taken_up(tmp_path: Path) -> None:
    async with kept(tmp_path) as hook:
        theirs = new_material(URL.names, REAL_NOW)
        assert await hook.store.write(theirs, over=await hook.store.read())
        await hook.next_round()

        assert await hook.served(theirs.ca_cert) == der_of(theirs.server_cert)


async def test_without_an_api_server_it_is_not_ready_at_first_and_stays_ready_later(
    tmp_path: Path,
) -> None:
    registry = Registry()
    registry.problem = AWAY
    async with kept(tmp_path, registry=registry) as hook:
        first = hook.problem
        registry.problem = None
        await hook.next_round()
        second = hook.problem
        registry.problem = AWAY
        await hook.next_round()

        assert "refused" in first
        assert second == ""
        assert hook.readiness.ready


async def test_it_waits_until_the_manifests_are_installed(tmp_path: Path) -> None:
    names = ServiceTarget("muster-webhook", "muster-system")
    async with kept(tmp_path, target=names) as hook:
        before = hook.problem
        for manifest in load_manifests():
            manifest["metadata"]["resourceVersion"] = "1"
            hook.registry.objects[manifest["kind"], manifest["metadata"]["name"]] = manifest
        await hook.next_round()

        assert "is not installed" in before
        assert hook.readiness.ready


async def test_a_registered_name_that_the_certificate_lacks_is_not_ready(tmp_path: Path) -> None:
    registry = Registry(*load_manifests())
    for webhook in registry.webhooks():
        webhook["clientConfig"]["service"]["namespace"] = "elsewhere"

    async with kept(tmp_path, target=ServiceTarget(), registry=registry) as hook:
        assert "our certificate does not pass for muster-webhook.elsewhere.svc" in hook.problem


async def test_certificates_are_waited_for_while_their_store_is_away(tmp_path: Path) -> None:
    class Flaky(FolderStore):
        """Away for the first two reads."""

        away = 2

        async def read(self) -> Held:
            if self.away:
                self.away -= 1
                raise AWAY
            return await super().read()

    clock, readiness = DatedClock(), Readiness((REGISTRATION,))
    upkeep = Upkeep(Registry(), URL, Flaky(tmp_path), clock, readiness)
    task = asyncio.create_task(upkeep.certificates())
    await clock.sleeping()
    problem = readiness.problems[REGISTRATION]
    material = await clock.play(task)

    assert "refused" in problem
    assert (await FolderStore(tmp_path).read()).material == material


async def test_rounds_are_rare_while_all_is_right(tmp_path: Path) -> None:
    async with kept(tmp_path) as hook:
        before = hook.clock.monotonic()
        await hook.next_round()

        assert hook.clock.monotonic() - before == pytest.approx(SETTLED_SECONDS)


@pytest.mark.parametrize(
    ("bundle", "text"),
    [
        pytest.param(b"", "the registered caBundle holds no certificate", id="no bundle"),
        pytest.param(b"junk", "the registered caBundle holds no certificate", id="no certificate"),
        pytest.param(
            new_material(ServerNames.of_host("127.0.0.1"), REAL_NOW).ca_bundle,
            "our certificate does not pass for 127.0.0.1",
            id="the bundle of another CA",
        ),
    ],
)
async def test_the_self_check_says_what_an_api_server_would_stumble_over(
    tmp_path: Path, bundle: bytes, text: str
) -> None:
    async with kept(tmp_path) as hook:
        with pytest.raises(SelfCheckError, match=text):
            await check(hook.address, Registered("127.0.0.1", bundle))


async def test_the_self_check_says_when_nobody_listens() -> None:
    with bound("127.0.0.1", 0) as sock:
        address = sock.getsockname()
    material = new_material(ServerNames.of_host("127.0.0.1"), REAL_NOW)

    with pytest.raises(SelfCheckError, match="does not answer"):
        await check(address, Registered("127.0.0.1", material.ca_bundle))


async def test_the_self_check_says_when_the_answer_is_wrong() -> None:
    material = new_material(ServerNames.of_host("127.0.0.1"), REAL_NOW)

    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readline()
        writer.write(b"HTTP/1.1 503 No\r\n\r\n")
        writer.close()

    server = await asyncio.start_server(refuse, "127.0.0.1", 0, ssl=server_context(material))
    async with server:
        address = server.sockets[0].getsockname()
        with pytest.raises(SelfCheckError, match="503"):
            await check(address, Registered("127.0.0.1", material.ca_bundle))
