"""Maintenance of certificates and registration while a listener serves."""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from email.utils import format_datetime
from pathlib import Path

import pytest
from cryptography import x509

from certs.authority import DEFAULT_LIFETIMES, Lifetimes, new_material, renewed_server
from certs.bundle import encoded
from certs.context import client_context, server_context
from certs.material import Material, ServerNames
from certs.sources import MountedFolder, OwnAuthority, Source
from certs.stores import FolderStore, StoredMaterial
from kube.base.clock import ServerClock
from kube.base.errors import Unreachable
from kube.client.meta import Json
from kube.client.resources import Resource
from tests.support.dated_clock import REAL_NOW, DatedClock
from tests.support.memory_api import FOREVER
from tests.webhooks.registrations import Registrations
from tests.webhooks.review_requests import FakeLister
from webhooks.routing.reviewer import Reviewer
from webhooks.server.maintenance import (
    ANNOUNCED_SECONDS,
    PROPAGATION_SECONDS,
    STEADY_SECONDS,
    Maintenance,
)
from webhooks.server.readiness import REGISTRATION, Readiness
from webhooks.server.registration import (
    Registered,
    ServiceTarget,
    Target,
    UrlTarget,
    load_manifests,
)
from webhooks.server.routes import build
from webhooks.server.selfcheck import SelfCheckError, check
from webhooks.server.server import Listener, bound

URL = UrlTarget("https://127.0.0.1:9443")
REQUESTS = ("get", "create", "patch")
AWAY = Unreachable("GET", "/apis", "refused")
MINUTE = timedelta(minutes=1)


@dataclass
class Kept:
    """A listener under maintenance."""

    registry: Registrations
    readiness: Readiness
    clock: DatedClock
    store: FolderStore
    address: tuple[str, int]

    async def next_round(self) -> None:
        """Wake the maintenance and wait until it sleeps again."""
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
        """Return the certificate (DER) that a new connection gets."""
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
    registry: Registrations | None = None,
    material: Material | None = None,
    lifetimes: Lifetimes = DEFAULT_LIFETIMES,
    source: Source | None = None,
) -> AsyncIterator[Kept]:
    """Run a listener whose maintenance has completed its first two rounds."""
    clock = DatedClock(begin)
    registry = registry or Registrations()
    readiness = Readiness((REGISTRATION,))
    store = FolderStore(folder)
    if material is not None:
        assert await store.write(material, over=StoredMaterial(None))
    source = source or OwnAuthority(store, target.names, lifetimes)
    maintenance = Maintenance(registry, target, source, clock, readiness)
    serving = await maintenance.certificates()
    context = server_context(serving)
    with bound("127.0.0.1", 0) as sock:
        async with Listener(build(Reviewer(FakeLister()), readiness), context, sock) as listener:
            task = asyncio.create_task(maintenance.run(context, serving, listener.address))
            await clock.sleeping()
            hook = Kept(registry, readiness, clock, store, listener.address)
            await hook.next_round()
            yield hook
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task


def der_of(pem: bytes) -> bytes:
    return ssl.PEM_cert_to_DER_cert(pem.decode())


async def test_one_round_registers_and_makes_ready(tmp_path: Path) -> None:
    async with kept(tmp_path) as hook:
        assert hook.readiness.ready
        assert len(hook.registry.configurations) == 2


async def test_a_ca_that_someone_changed_is_repaired_in_the_next_round(tmp_path: Path) -> None:
    async with kept(tmp_path) as hook:
        right = bundle(hook.registry)
        with hook.registry.changed() as webhooks:
            webhooks[0]["clientConfig"]["caBundle"] = "b2xk"
        await hook.next_round()

        assert hook.registry.webhooks()[0]["clientConfig"]["caBundle"] == right
        assert hook.readiness.ready


async def test_a_server_certificate_is_renewed_while_serving(tmp_path: Path) -> None:
    begin = REAL_NOW - MINUTE
    old = new_material(
        URL.names, begin - (DEFAULT_LIFETIMES.server - DEFAULT_LIFETIMES.ahead) + MINUTE
    )
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


async def test_a_next_ca_is_announced_before_anything_it_signed_is_served(tmp_path: Path) -> None:
    begin = REAL_NOW - MINUTE
    aged = new_material(URL.names, begin - (DEFAULT_LIFETIMES.ca - DEFAULT_LIFETIMES.ahead))
    old = renewed_server(aged, URL.names, begin)
    async with kept(tmp_path, begin=begin, material=old) as hook:
        announced = await hook.material()
        seen = {bundle(hook.registry)}
        shown = [await hook.served(old.ca_cert)]
        waited = 0.0
        while (await hook.material()).ca_cert == old.ca_cert:
            started = hook.clock.monotonic()
            shown.append(await hook.served(old.ca_cert))
            await hook.next_round()
            waited += hook.clock.monotonic() - started
            seen.add(bundle(hook.registry))
        new = await hook.material()

        assert announced.ca_bundle == old.ca_cert + announced.next_ca
        assert seen == {encoded(announced.ca_bundle)}
        assert set(shown) == {der_of(announced.server_cert)}
        assert ANNOUNCED_SECONDS - PROPAGATION_SECONDS <= waited <= 2 * ANNOUNCED_SECONDS
        assert await hook.served(new.ca_cert) == der_of(new.server_cert)
        assert (new.previous_ca, new.ca_bundle) == (old.ca_cert, announced.ca_bundle)
        assert hook.readiness.ready


async def test_an_announcement_that_someone_took_back_begins_anew(tmp_path: Path) -> None:
    begin = REAL_NOW - 5 * MINUTE
    aged = new_material(URL.names, begin - (DEFAULT_LIFETIMES.ca - DEFAULT_LIFETIMES.ahead))
    old = renewed_server(aged, URL.names, begin)
    async with kept(tmp_path, begin=begin, material=old) as hook:
        for _ in range(3):
            register_ca(hook.registry, old.ca_cert)
            hook.clock.jump(ANNOUNCED_SECONDS - 2)
            await hook.next_round()
        taken_back = await hook.material()

        assert taken_back.ca_cert == old.ca_cert
        assert taken_back.next_ca


def register_ca(registry: Registrations, pem: bytes) -> None:
    """Register another caBundle everywhere, as another component would."""
    with registry.changed() as webhooks:
        for webhook in webhooks:
            webhook["clientConfig"]["caBundle"] = encoded(pem)


def bundle(registry: Registrations) -> str:
    """Return the one caBundle that is registered everywhere."""
    (found,) = {webhook["clientConfig"]["caBundle"] for webhook in registry.webhooks()}
    return str(found)


async def test_certificates_that_someone_else_renews_are_taken_up(tmp_path: Path) -> None:
    def mounted(material: Material) -> None:
        for name, pem in material.to_files().items():
            (tmp_path / name).write_bytes(pem)

    first = new_material(URL.names, REAL_NOW)
    mounted(first)
    async with kept(tmp_path / "unused", source=MountedFolder(tmp_path)) as hook:
        registered = bundle(hook.registry)
        second = renewed_server(first, URL.names, REAL_NOW)
        mounted(second)
        await hook.next_round()
        served = await hook.served(first.ca_cert)
        (tmp_path / "tls.key").write_bytes(first.server_key)
        await hook.next_round()
        half_written = await hook.served(first.ca_cert)

        assert registered == encoded(first.ca_cert)
        assert served == half_written == der_of(second.server_cert)
        assert hook.readiness.ready


async def test_a_ca_that_someone_else_injects_is_only_read(tmp_path: Path) -> None:
    target = ServiceTarget(inject=False)
    made = new_material(target.names, REAL_NOW)
    for name, pem in made.to_files().items():
        (tmp_path / name).write_bytes(pem)
    registry = Registrations(*load_manifests())
    source = MountedFolder(tmp_path)
    async with kept(tmp_path / "x", target=target, registry=registry, source=source) as hook:
        before = hook.problem
        register_ca(registry, made.ca_cert)
        await hook.next_round()
        await hook.next_round()

        assert "the registered caBundle contains no certificate" in before
        assert hook.readiness.ready
        assert registry.writes == 0


async def test_what_is_registered_counts_when_it_was_right_twice(tmp_path: Path) -> None:
    async with kept(tmp_path) as hook:
        hook.readiness.unmet(REGISTRATION, "as if it had just started")
        with hook.registry.changed() as webhooks:
            webhooks[0]["clientConfig"]["caBundle"] = "b2xk"
        await hook.next_round()
        corrected = hook.problem
        started = hook.clock.monotonic()
        await hook.next_round()

        assert "may not use the registration yet" in corrected
        assert hook.readiness.ready
        assert hook.clock.monotonic() - started == pytest.approx(PROPAGATION_SECONDS)


async def test_certificates_that_another_replica_made_are_taken_up(tmp_path: Path) -> None:
    async with kept(tmp_path) as hook:
        theirs = new_material(URL.names, REAL_NOW)
        assert await hook.store.write(theirs, over=await hook.store.read())
        await hook.next_round()

        assert await hook.served(theirs.ca_cert) == der_of(theirs.server_cert)


async def test_without_an_api_server_it_is_not_ready_at_first_and_stays_ready_later(
    tmp_path: Path,
) -> None:
    registry = Registrations()
    registry.fail(AWAY, verbs=REQUESTS, times=FOREVER)
    async with kept(tmp_path, registry=registry) as hook:
        first = hook.problem
        registry.recover()
        await hook.next_round()
        await hook.next_round()
        second = hook.problem
        registry.fail(AWAY, verbs=REQUESTS, times=FOREVER)
        await hook.next_round()

        assert "refused" in first
        assert second == ""
        assert hook.readiness.ready


async def test_it_waits_until_the_manifests_are_installed(tmp_path: Path) -> None:
    names = ServiceTarget("muster-webhook", "muster-system")
    async with kept(tmp_path, target=names) as hook:
        before = hook.problem
        for manifest in load_manifests():
            hook.registry.install(manifest)
        await hook.next_round()
        await hook.next_round()

        assert "is not installed" in before
        assert hook.readiness.ready


async def test_a_registered_name_that_the_certificate_lacks_is_not_ready(tmp_path: Path) -> None:
    registry = Registrations(*load_manifests())
    with registry.changed() as webhooks:
        for webhook in webhooks:
            webhook["clientConfig"]["service"]["namespace"] = "elsewhere"

    async with kept(tmp_path, target=ServiceTarget(), registry=registry) as hook:
        assert "the certificate is not valid for muster-webhook.elsewhere.svc" in hook.problem


async def test_certificates_are_waited_for_while_their_store_is_away(tmp_path: Path) -> None:
    class Flaky(FolderStore):
        """A store that fails for the first two reads."""

        unreachable = 2

        async def read(self) -> StoredMaterial:
            if self.unreachable:
                self.unreachable -= 1
                raise AWAY
            return await super().read()

    clock, readiness = DatedClock(), Readiness((REGISTRATION,))
    source = OwnAuthority(Flaky(tmp_path), URL.names)
    maintenance = Maintenance(Registrations(), URL, source, clock, readiness)
    task = asyncio.create_task(maintenance.certificates())
    await clock.sleeping()
    problem = readiness.problems[REGISTRATION]
    material = await clock.play(task)

    assert "refused" in problem
    stored = (await FolderStore(tmp_path).read()).material
    assert stored is not None
    assert stored.serving == material


@pytest.mark.parametrize("off", [timedelta(days=300), -timedelta(days=300)])
async def test_certificates_are_valid_by_the_clock_of_the_api_server(
    tmp_path: Path, off: timedelta
) -> None:
    """A machine whose clock was ahead wrote certificates that API servers rejected until then."""
    clock = ServerClock(DatedClock(REAL_NOW + off))

    class Dated(Registrations):
        """An API server whose responses have a Date."""

        async def get(self, resource: Resource, name: str, namespace: str | None = None) -> Json:
            clock.heard(format_datetime(REAL_NOW, usegmt=True))
            return await super().get(resource, name, namespace)

    source = OwnAuthority(FolderStore(tmp_path), URL.names)
    maintenance = Maintenance(Dated(), URL, source, clock, Readiness((REGISTRATION,)))

    serving = await maintenance.certificates()

    [certificate] = x509.load_pem_x509_certificates(serving.server_cert)
    assert certificate.not_valid_before_utc <= REAL_NOW
    assert certificate.not_valid_after_utc > REAL_NOW + DEFAULT_LIFETIMES.ahead


async def test_rounds_are_rare_while_all_is_right(tmp_path: Path) -> None:
    async with kept(tmp_path) as hook:
        before = hook.clock.monotonic()
        await hook.next_round()

        assert hook.clock.monotonic() - before == pytest.approx(STEADY_SECONDS)


@pytest.mark.parametrize(
    ("bundle", "text"),
    [
        pytest.param(b"", "the registered caBundle contains no certificate", id="no bundle"),
        pytest.param(
            b"junk", "the registered caBundle contains no certificate", id="no certificate"
        ),
        pytest.param(
            new_material(ServerNames.of_host("127.0.0.1"), REAL_NOW).ca_bundle,
            "the certificate is not valid for 127.0.0.1",
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

    with pytest.raises(SelfCheckError, match="does not respond"):
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
