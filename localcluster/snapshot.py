"""A complete cluster in one file: written when it stops, read when it starts again.

Objects keep their revisions, users their tokens, and the server its certificate, so that clients
can continue to use their kubeconfigs. The history is not saved: watches restart after a 410.
"""

from datetime import datetime
from pathlib import Path
from typing import Any, Literal

import msgspec

from localcluster.base import tls
from localcluster.base.auth import Tokens
from localcluster.base.resources import CRDS
from localcluster.base.store import Store
from localcluster.http import serving

Object = dict[str, Any]
FORMAT: Literal[1] = 1


class SnapshotError(Exception):
    """The file is not a snapshot of a cluster."""


class Account(msgspec.Struct, frozen=True):
    """A token and its user."""

    token: str
    user: str
    uid: str
    groups: list[str]


class Certificate(msgspec.Struct, frozen=True):
    """The server's certificate and key, and the CA certificate, as PEM."""

    host: str
    made: datetime
    certificate: str
    key: str
    ca: str


class Snapshot(msgspec.Struct, frozen=True):
    """The complete state of a cluster, except its addresses."""

    format: Literal[1]
    revision: int
    accounts: list[Account]
    server: Certificate
    objects: dict[str, list[Object]]

    def restore(self, store: Store, tokens: Tokens) -> None:
        """Fill an empty store, CRDs first, and register the users."""
        for account in self.accounts:
            tokens.restore(account.token, account.user, account.uid, account.groups)
        definitions = "/".join(CRDS.collection)
        for name in sorted(self.objects, key=lambda name: name != definitions):
            group, _, plural = name.partition("/")
            store.restore((group, plural), self.objects[name])
        store.resume(self.revision)

    def files(self, folder: Path, host: str, now: datetime) -> tls.ServerFiles | None:
        """Return the server's files if the certificate stays valid for that address long enough."""
        server = self.server
        if server.host != host or now - server.made > tls.LIFE / 2:
            return None
        return tls.write(folder, server.certificate.encode(), server.key.encode(), server.ca)


def load(path: Path) -> Snapshot | None:
    """Load the saved snapshot; None if there is none. Raises SnapshotError."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=Snapshot)
    except FileNotFoundError:
        return None
    except msgspec.DecodeError as error:
        raise SnapshotError(f"{path} is no snapshot of format {FORMAT}: {error}") from error


def save(path: Path, store: Store, tokens: Tokens, server: Certificate) -> None:
    """Write the snapshot atomically, readable only by its owner."""
    found = Snapshot(
        FORMAT,
        store.revision,
        [Account(token, user.name, user.uid, list(user.groups)) for token, user in tokens.all()],
        server,
        {
            "/".join(which): [stored.obj for stored in store.collection(which).objects.values()]
            for which in store.collections()
        },
    )
    serving.write_private(path, msgspec.json.encode(found).decode())
