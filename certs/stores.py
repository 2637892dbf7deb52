"""Stores of certificates, which replicas share without a race.

A store is written only if its content is still what was read: a replica that loses the race reads
the winner's certificates. So every replica serves and announces the same ones.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Protocol

import structlog

from certs.authority import DEFAULT_LIFETIMES, Lifetimes
from certs.material import OPTIONAL, REQUIRED, Material, MaterialError, ServerNames
from certs.renewal import DueRenewal, Renew, needed, renewed
from kube.base.errors import AlreadyExists, Conflict, Forbidden, KubeError, NotFound
from kube.client.client import Client
from kube.client.meta import Json
from kube.client.patch import PatchBuilder
from kube.client.resources import SECRETS

log = structlog.get_logger(__name__)

ATTEMPTS = 5
"""Lost races in a row, after which another component seems to rewrite the store."""


@dataclass(frozen=True, slots=True)
class StoredMaterial:
    """The content of a store: certificates if there are any, and its version in the store."""

    material: Material | None
    version: object = None


class SecretMissingError(KubeError):
    """The Secret does not exist, and only an administrator may create it.

    RBAC cannot limit the right to create Secrets to one name, so Muster's roles do not grant it.
    """

    def __init__(self, name: str, namespace: str) -> None:
        """Name the Secret, and the command that creates it."""
        super().__init__(
            f"Secret {namespace}/{name} does not exist, and this account may not create it:"
            f" run `kubectl create secret generic {name} --namespace {namespace}`;"
            " the webhook writes its certificates into it"
        )


class Store(Protocol):
    """A store of certificates that several processes may share."""

    async def read(self) -> StoredMaterial:
        """Return the current content; unreadable parts count as absent."""

    async def write(self, material: Material, *, over: StoredMaterial) -> bool:
        """Write `material`; False, without a change, if the content is no longer `over`."""


class StoreContendedError(Exception):
    """Others rewrote the store between each read and write."""

    def __init__(self, store: Store) -> None:
        super().__init__(f"{store}: {ATTEMPTS} writes in a row conflicted with other writers")
        self.store = store


async def ensure(
    store: Store,
    names: ServerNames,
    now: datetime,
    lifetimes: Lifetimes = DEFAULT_LIFETIMES,
    *,
    trusted: bytes = b"",
) -> Material:
    """Return certificates for `names` at `now` (UTC): the stored ones, created or renewed there.

    `trusted` is the next CA once all API servers are known to trust it. Raises StoreContendedError,
    and what the store raises (OSError, kube.base.errors).
    """
    for _ in range(ATTEMPTS):
        stored = await store.read()
        material, done = _renewed_until_good(stored.material, names, now, lifetimes, trusted)
        if not done:
            return material
        if await store.write(material, over=stored):
            for need in done:
                log.info(
                    "certificates renewed", what=need.renew.value, why=need.why, store=str(store)
                )
            return material
    raise StoreContendedError(store)


def _renewed_until_good(
    material: Material | None,
    names: ServerNames,
    now: datetime,
    lifetimes: Lifetimes,
    trusted: bytes,
) -> tuple[Material, list[DueRenewal]]:
    """Renew until nothing is needed; return the certificates and what was done."""
    done: list[DueRenewal] = []
    while True:
        need = needed(material, names, now, lifetimes, trusted=trusted)
        if material is not None and need.renew is Renew.NOTHING:
            return material, done
        material = renewed(material, need, names, now, lifetimes)
        done.append(need)


class SecretStore:
    """One Secret, shared by all replicas.

    The Secret may exist empty: then the process needs no right to create one.
    """

    def __init__(self, client: Client, name: str, namespace: str) -> None:
        self._client = client
        self._name = name
        self._namespace = namespace

    def __str__(self) -> str:
        return f"Secret {self._namespace}/{self._name}"

    async def read(self) -> StoredMaterial:
        """Return the content of the Secret; the version is the object itself."""
        try:
            secret = await self._client.get(SECRETS, self._name, self._namespace)
        except NotFound:
            return StoredMaterial(None)
        data: Mapping[str, str] = secret.get("data") or {}
        return StoredMaterial(
            _readable(self, lambda: Material.from_secret_data(data), anything=bool(data)), secret
        )

    async def write(self, material: Material, *, over: StoredMaterial) -> bool:
        """Create the Secret, or patch it if its resourceVersion is still the one read.

        Raises SecretMissingError if it does not exist and may not be created.
        """
        try:
            if isinstance(over.version, dict):
                patch = _secret_patch(over.version, material)
                await self._client.patch(SECRETS, self._name, patch, self._namespace)
            else:
                await self._create(material)
        # Another replica was faster, or the Secret was deleted: `ensure` reads again.
        except (AlreadyExists, Conflict, NotFound):
            return False
        return True

    async def _create(self, material: Material) -> None:
        try:
            await self._client.create(SECRETS, self._secret(material), self._namespace)
        except Forbidden as error:
            raise SecretMissingError(self._name, self._namespace) from error

    def _secret(self, material: Material) -> Json:
        return {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {
                "name": self._name,
                "namespace": self._namespace,
                "labels": {"app.kubernetes.io/managed-by": "muster"},
            },
            "type": "Opaque",
            "data": material.to_secret_data(),
        }


def _readable(store: Store, parse: Callable[[], Material], *, anything: bool) -> Material | None:
    """Return the parsed content of a store; damaged content is logged, and then replaced."""
    if not anything:
        return None
    try:
        return parse()
    except MaterialError as error:
        log.warning("certificates unreadable", store=str(store), error=str(error))
        return None


def _secret_patch(secret: Mapping[str, Any], material: Material) -> PatchBuilder:
    """Return a patch of all data: removing an entry that is already gone would be an error."""
    theirs = {key: text for key, text in (secret.get("data") or {}).items() if key not in OPTIONAL}
    patch = PatchBuilder().at_version(secret["metadata"]["resourceVersion"])
    return patch.add("/data", {**theirs, **material.to_secret_data()})


class FolderStore:
    """A local folder, for a webhook reached by URL; a lock file serialises processes."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def __str__(self) -> str:
        return f"folder {self._folder}"

    async def read(self) -> StoredMaterial:
        """Return the content of the files."""
        return await asyncio.to_thread(self._read)

    async def write(self, material: Material, *, over: StoredMaterial) -> bool:
        """Replace the files, readable by this user only."""
        return await asyncio.to_thread(self._write, material, over)

    def _read(self) -> StoredMaterial:
        with self._locked():
            return StoredMaterial(self._material())

    def _write(self, material: Material, over: StoredMaterial) -> bool:
        with self._locked():
            if self._material() != over.material:
                return False
            for name in OPTIONAL:
                (self._folder / name).unlink(missing_ok=True)
            for name, pem in material.to_files().items():
                path = self._folder / name
                # Before the content: it is never readable by others, not even for a moment.
                path.touch(0o600)
                path.write_bytes(pem)
            return True

    def _material(self) -> Material | None:
        paths = {name: self._folder / name for name in (*REQUIRED, *OPTIONAL)}
        files = {name: path.read_bytes() for name, path in paths.items() if path.exists()}
        return _readable(self, lambda: Material.from_files(files), anything=bool(files))

    @contextmanager
    def _locked(self) -> Iterator[None]:
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = os.open(self._folder / ".lock", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield
        finally:
            os.close(lock)
