"""Tokens that the API servers no longer accept."""

import base64
import json
import time
from pathlib import Path

from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature

_AGE = 3600


def expired(token: str, key: Path) -> str:
    """Return the same token as one that expired an hour ago, signed by the servers' own key."""
    header, payload, _ = token.split(".")
    now = int(time.time())
    times = {"iat": now - 2 * _AGE, "nbf": now - 2 * _AGE, "exp": now - _AGE}
    signed = f"{header}.{_encoded(json.dumps({**_claims(payload), **times}).encode())}"
    return f"{signed}.{_encoded(_signature(signed.encode(), key))}"


def _claims(payload: str) -> dict[str, object]:
    claims: dict[str, object] = json.loads(
        base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4))
    )
    return claims


def _signature(content: bytes, key: Path) -> bytes:
    """Return the signature by a P-256 key as tokens have it: two numbers of 32 bytes."""
    signer = serialization.load_pem_private_key(key.read_bytes(), None)
    assert isinstance(signer, ec.EllipticCurvePrivateKey)
    numbers = decode_dss_signature(signer.sign(content, ec.ECDSA(hashes.SHA256())))
    return b"".join(number.to_bytes(32, "big") for number in numbers)


def _encoded(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).rstrip(b"=").decode()
