"""A token that nobody can read without the secret of its session, which the browser alone keeps."""

from __future__ import annotations

import os
from typing import Final

from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

_NONCE: Final = 12
"""Bytes of a nonce, as AES-GCM takes."""

_BYTES: Final = 32
"""Bytes of a key, for AES-256."""

_PURPOSE: Final = b"the token of a session of Muster's console"


def seal(token: str, secret: str) -> bytes:
    """The token, encrypted by what follows from the secret."""
    nonce = os.urandom(_NONCE)
    return nonce + _cipher(secret).encrypt(nonce, token.encode(), None)


def unseal(sealed: bytes, secret: str) -> str:
    """The token. Raises cryptography's InvalidTag for another secret."""
    nonce, encrypted = sealed[:_NONCE], sealed[_NONCE:]
    return _cipher(secret).decrypt(nonce, encrypted, None).decode()


def _cipher(secret: str) -> AESGCM:
    derived = HKDF(algorithm=SHA256(), length=_BYTES, salt=None, info=_PURPOSE)
    return AESGCM(derived.derive(secret.encode()))
