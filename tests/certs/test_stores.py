"""Certificates shared by several processes: one wins, all serve the same."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from certs.authority import DEFAULT_LIFETIMES, new_material
from certs.context import client_context, server_context
from certs.material import Material, ServerNames
from certs.renewal import Renew, needed
from certs.stores import (
    ATTEMPTS,
    FolderStore,
    SecretMissingError,
    SecretStore,
    StoreContendedError,
    StoredMaterial,
    ensure,
)
from kube.base.errors import Forbidden
from kube.client.meta import Json
from kube.client.resources import SECRETS
from tests.support.memory_api import Event, MemoryApi

NOW = datetime(2026, 3, 1, tzinfo=UTC)
NAMES = ServerNames.of_service("muster-webhook", "muster-system")


class Secrets(MemoryApi):
    """An API server with one Secret; callers interleave at every request."""

    def __init__(self, secret: Json | None = None) -> None:
        super().__init__()
        self.versions = 0
        if secret is not None:
            self.put(SECRETS, secret, "muster-system")
        self.follow(SECRETS, self._note)

    @property
    def secret(self) -> Json | None:
        return self.stored(SECRETS, "certs", "muster-system")

    def _note(self, _event: Event, _kind: str) -> None:
        self.versions += 1


def store_of(api: Secrets) -> SecretStore:
    return SecretStore(api, "certs", "muster-system")


def empty_secret() -> Json:
    return {"metadata": {"name": "certs"}, "type": "Opaque"}


@pytest.mark.parametrize(
    "secret",
    [
        pytest.param(None, id="the Secret is not there"),
        pytest.param(empty_secret(), id="the Secret was installed empty"),
        pytest.param(
            {**empty_secret(), "data": {"tls.crt": "%%%", "mine": "a2VwdA=="}},
            id="the Secret is damaged",
        ),
    ],
)
async def test_replicas_that_start_together_end_with_the_same_certificates(
    secret: Json | None,
) -> None:
    api = Secrets(secret)

    found = await asyncio.gather(*(ensure(store_of(api), NAMES, NOW) for _ in range(5)))

    assert len(set(found)) == 1
    assert api.versions == 1
    assert needed(found[0], NAMES, NOW).renew is Renew.NOTHING
    assert api.secret is not None
    if secret and "mine" in secret.get("data", {}):
        assert api.secret["data"]["mine"] == "a2VwdA=="


async def test_a_deleted_secret_that_may_not_be_created_names_the_command_that_creates_it() -> None:
    """Muster's role may get and patch this Secret, and create none."""
    api = Secrets()
    forbidden = Forbidden(403, "Forbidden", 'secrets is forbidden: User "x" cannot create')
    api.fail(forbidden, verbs=["create"])
    with pytest.raises(SecretMissingError) as raised:
        await ensure(store_of(api), NAMES, NOW)

    command = "kubectl create secret generic certs --namespace muster-system"
    assert "Secret muster-system/certs does not exist" in str(raised.value)
    assert command in str(raised.value)

    api.put(SECRETS, empty_secret(), "muster-system")
    found = await ensure(store_of(api), NAMES, NOW)

    assert (await store_of(api).read()).material == found


async def test_good_certificates_are_not_written_again() -> None:
    api = Secrets()

    first = await ensure(store_of(api), NAMES, NOW)
    second = await ensure(store_of(api), NAMES, NOW + timedelta(days=1))

    assert first == second
    assert api.versions == 1


async def test_a_renewal_replaces_the_server_certificate_in_the_secret() -> None:
    api = Secrets()
    first = await ensure(store_of(api), NAMES, NOW)

    second = await ensure(store_of(api), NAMES, NOW + DEFAULT_LIFETIMES.server)

    assert second.ca_cert == first.ca_cert
    assert second.server_cert != first.server_cert
    assert (await store_of(api).read()).material == second


async def test_an_old_ca_that_is_no_longer_trusted_leaves_the_secret() -> None:
    api = Secrets()
    other = new_material(NAMES, NOW)
    old = replace(
        new_material(NAMES, NOW),
        previous_ca=other.ca_cert,
        next_ca=other.ca_cert,
        next_key=other.ca_key,
    )
    await store_of(api).write(old, over=StoredMaterial(None))

    assert await store_of(api).write(new_material(NAMES, NOW), over=await store_of(api).read())

    assert api.secret is not None
    assert set(api.secret["data"]) == {"ca.crt", "ca.key", "tls.crt", "tls.key"}


@pytest.mark.parametrize("where", ["Secret", "folder"])
async def test_a_ca_changes_in_two_steps_and_nothing_is_left_of_them(
    tmp_path: Path, where: str
) -> None:
    store = store_of(Secrets()) if where == "Secret" else FolderStore(tmp_path)
    late = NOW + DEFAULT_LIFETIMES.ca - DEFAULT_LIFETIMES.ahead
    first = await ensure(store, NAMES, NOW)

    announced = await ensure(store, NAMES, late)
    waiting = await ensure(store, NAMES, late)
    done = await ensure(store, NAMES, late, trusted=announced.next_ca)
    at_rest = await ensure(store, NAMES, late, trusted=announced.next_ca)

    assert waiting == announced
    assert announced.ca_cert == first.ca_cert
    assert at_rest == done
    assert done.ca_cert == announced.next_ca
    assert (done.previous_ca, done.next_ca) == (first.ca_cert, b"")
    assert (await store.read()).material == done


@pytest.mark.parametrize("ahead", [timedelta(hours=2), timedelta(days=300)])
@pytest.mark.parametrize("installed", [True, False])
async def test_what_a_process_with_a_fast_clock_wrote_is_replaced_and_accepted(
    tmp_path: Path, ahead: timedelta, installed: bool
) -> None:
    store, now = FolderStore(tmp_path), datetime.now(UTC)
    if installed:
        await ensure(store, NAMES, now)
    await ensure(store, NAMES, now + ahead)

    serving = (await ensure(store, NAMES, now)).serving

    async def accepted(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()

    context = server_context(serving)
    async with await asyncio.start_server(accepted, "127.0.0.1", 0, ssl=context) as server:
        host, port = server.sockets[0].getsockname()[:2]
        trust = client_context(serving.ca_bundle)
        _, writer = await asyncio.open_connection(
            host, port, ssl=trust, server_hostname=NAMES.dns[0]
        )
        writer.close()


async def test_replicas_that_announce_at_once_announce_the_same_ca() -> None:
    api = Secrets()
    await ensure(store_of(api), NAMES, NOW)
    late = NOW + DEFAULT_LIFETIMES.ca - DEFAULT_LIFETIMES.ahead

    found = await asyncio.gather(*(ensure(store_of(api), NAMES, late) for _ in range(5)))
    bundle = found[0].next_ca
    then = await asyncio.gather(
        *(ensure(store_of(api), NAMES, late, trusted=bundle) for _ in range(5))
    )

    assert len({one.ca_bundle for one in (*found, *then)}) == 1
    assert len({one.server_cert for one in then}) == 1


class Restless:
    """A store that others rewrite after each read."""

    async def read(self) -> StoredMaterial:
        return StoredMaterial(None)

    async def write(self, material: Material, *, over: StoredMaterial) -> bool:
        return False


async def test_a_store_that_never_rests_is_an_error_that_names_it() -> None:
    store = Restless()

    with pytest.raises(StoreContendedError, match=f"{ATTEMPTS} writes in a row") as caught:
        await ensure(store, NAMES, NOW)

    assert caught.value.store is store


async def test_processes_that_share_a_folder_end_with_the_same_certificates(tmp_path: Path) -> None:
    folder = tmp_path / "deep" / "certs"

    found = await asyncio.gather(*(ensure(FolderStore(folder), NAMES, NOW) for _ in range(5)))

    assert len(set(found)) == 1
    assert (await FolderStore(folder).read()).material == found[0]


async def test_keys_in_a_folder_are_for_their_owner_only(tmp_path: Path) -> None:
    folder = tmp_path / "certs"

    await ensure(FolderStore(folder), NAMES, NOW)

    assert folder.stat().st_mode & 0o077 == 0
    assert all(path.stat().st_mode & 0o077 == 0 for path in folder.iterdir())


@pytest.mark.parametrize(
    "damage",
    [
        pytest.param(lambda folder: (folder / "tls.key").unlink(), id="a file is missing"),
        pytest.param(lambda folder: (folder / "ca.crt").write_text("no"), id="a file is damaged"),
    ],
)
async def test_damage_in_a_folder_is_made_good(
    tmp_path: Path, damage: Callable[[Path], None]
) -> None:
    first = await ensure(FolderStore(tmp_path), NAMES, NOW)
    damage(tmp_path)

    second = await ensure(FolderStore(tmp_path), NAMES, NOW)

    assert second != first
    assert (await FolderStore(tmp_path).read()).material == second


async def test_a_folder_rewritten_since_it_was_read_is_left_alone(tmp_path: Path) -> None:
    store = FolderStore(tmp_path)
    stored = await store.read()
    winner = await ensure(store, NAMES, NOW)

    assert not await store.write(new_material(NAMES, NOW), over=stored)
    assert (await store.read()).material == winner
