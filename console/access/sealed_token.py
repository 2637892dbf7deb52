"""Encryption of a token by the secret of its session, which only the browser stores."""

from __future__ import annotations

import os
from typing import Final

from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

_NONCE: Final = 12
"""Bytes of a nonce, as AES-GCM requires."""

_BYTES: Final = 32
"""Bytes of a key, for AES-256."""

_PURPOSE: Final = b"the token of a session of Muster's console"


def seal(token: str, secret: str) -> bytes:
    """Encrypt the token by a key that is derived from the secret."""
    nonce = os.urandom(_NONCE)
    return nonce + _cipher(secret).encrypt(nonce, token.encode(), None)


def unseal(sealed: bytes, secret: str) -> str:
    """Decrypt the token. Raises cryptography's InvalidTag for another secret."""
    nonce, encrypted = sealed[:_NONCE], sealed[_NONCE:]
    return _cipher(secret).decrypt(nonce, encrypted, None).decode()


def _cipher(secret: str) -> AESGCM:
    # No salt is needed: the secret is random, and as long as the key.
    derived = HKDF(algorithm=SHA256(), length=_BYTES, salt=None, info=_PURPOSE)
    return AESGCM(derived.derive(secret.encode()))
