"""Authentication: bearer tokens, as in the token file of the API server."""

import csv
import secrets
from collections.abc import Iterable
from pathlib import Path

from localcluster.base.errors import unauthorized
from localcluster.base.hooks import User

AUTHENTICATED = "system:authenticated"
ACCOUNTS = "system:serviceaccounts"


def account_name(namespace: str, name: str) -> str:
    """Return the user name of a ServiceAccount."""
    return f"system:serviceaccount:{namespace}:{name}"


class Tokens:
    """The known tokens and their users."""

    def __init__(self) -> None:
        """Create an empty set of tokens."""
        self._users: dict[str, User] = {}

    def add(self, user: str, groups: Iterable[str] = (), *, token: str = "", uid: str = "") -> str:
        """Register a user with a token, generated unless given, and return the token."""
        token = token or secrets.token_urlsafe(24)
        self._users[token] = User(user, (*groups, AUTHENTICATED), uid)
        return token

    def add_account(self, namespace: str, name: str, uid: str) -> str:
        """Create a token of a ServiceAccount; it is valid until `forget` is called with the UID."""
        groups = (ACCOUNTS, f"{ACCOUNTS}:{namespace}")
        return self.add(account_name(namespace, name), groups, uid=uid)

    def all(self) -> Iterable[tuple[str, User]]:
        """Return every token with its user."""
        return self._users.items()

    def restore(self, token: str, user: str, uid: str, groups: Iterable[str]) -> None:
        """Register a user with all of its groups, as returned by `all`."""
        self._users[token] = User(user, tuple(groups), uid)

    def forget(self, uid: str) -> None:
        """Revoke all tokens of the account with that UID."""
        self._users = {token: user for token, user in self._users.items() if user.uid != uid}

    def load(self, path: Path) -> None:
        """Read a file of lines `token,user,uid,"group,group"`."""
        with path.open(newline="") as file:
            for row in csv.reader(file):
                token, name, uid, *groups = (cell.strip() for cell in row)
                self.add(name, groups[0].split(",") if groups else (), token=token, uid=uid)

    def find(self, token: str) -> User | None:
        """Return the user of a token, or None."""
        return self._users.get(token)

    def authenticate(self, authorization: bytes) -> User:
        """Return the user of an Authorization header. Raises StatusError 401."""
        kind, _, token = authorization.decode("latin-1").partition(" ")
        user = self._users.get(token.strip()) if kind.lower() == "bearer" else None
        if user is None:
            raise unauthorized()
        return user
