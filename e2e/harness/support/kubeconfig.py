"""Kubeconfig files: written for the suites' own clusters, read for any cluster."""

import base64
import ssl
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml


@dataclass(frozen=True, slots=True)
class Access:
    """The address and credentials of one API server."""

    server: str
    token: str | None
    context: ssl.SSLContext


def write(path: Path, *, server: str, ca_pem: bytes, token: str, user: str = "admin") -> Path:
    """Write one cluster, one user, one context, readable by its owner only."""
    authority = base64.b64encode(ca_pem).decode()
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [
            {
                "name": "muster",
                "cluster": {"server": server, "certificate-authority-data": authority},
            }
        ],
        "users": [{"name": user, "user": {"token": token}}],
        "contexts": [{"name": "muster", "context": {"cluster": "muster", "user": user}}],
        "current-context": "muster",
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch(mode=0o600)
    path.write_text(yaml.safe_dump(document, sort_keys=False))
    return path


def write_with_files(path: Path, *, server: str, authority: Path, token: Path) -> Path:
    """Write the same with the names of files, which a client reads again when they change."""
    write(path, server=server, ca_pem=b"", token="", user="muster")
    document = yaml.safe_load(path.read_text())
    document["clusters"][0]["cluster"] = {
        "server": server,
        "certificate-authority": str(authority),
    }
    document["users"][0]["user"] = {"tokenFile": str(token)}
    path.write_text(yaml.safe_dump(document, sort_keys=False))
    return path


def derive(admin: Path, path: Path, token: str) -> Path:
    """Write a kubeconfig for the same cluster as in `admin`, for the user of another token."""
    document = yaml.safe_load(admin.read_text())
    context = _named(document["contexts"], document["current-context"])["context"]
    user = {"name": context["user"], "user": {"token": token}}
    path.touch(mode=0o600)
    path.write_text(yaml.safe_dump({**document, "users": [user]}, sort_keys=False))
    return path


def read(path: Path) -> Access:
    """Return the current context's server and credentials.

    Raises ValueError where the user logs in by a plugin: these suites speak with a token or
    a client certificate.
    """
    document = yaml.safe_load(path.read_text())
    current = document["current-context"]
    context = _named(document["contexts"], current)["context"]
    cluster = _named(document["clusters"], context["cluster"])["cluster"]
    user = _named(document["users"], context["user"])["user"]
    if "exec" in user or "auth-provider" in user:
        raise ValueError(f"{path}: user {context['user']!r} logs in by a plugin; give a token")
    return Access(cluster["server"], user.get("token"), _tls(path, cluster, user))


def _tls(path: Path, cluster: dict[str, Any], user: dict[str, Any]) -> ssl.SSLContext:
    authority = _pem(path, cluster, "certificate-authority")
    context = ssl.create_default_context(cadata=authority.decode() if authority else None)
    certificate, key = _pem(path, user, "client-certificate"), _pem(path, user, "client-key")
    if certificate and key:
        # The ssl module loads a certificate chain only from files.
        with tempfile.NamedTemporaryFile() as both:
            both.write(certificate + b"\n" + key)
            both.flush()
            context.load_cert_chain(both.name)
    return context


def _pem(path: Path, holder: dict[str, Any], field: str) -> bytes | None:
    if data := holder.get(f"{field}-data"):
        return base64.b64decode(data)
    if name := holder.get(field):
        file: Path = path.parent / name
        return file.read_bytes()
    return None


def _named(entries: list[dict[str, Any]], name: str) -> dict[str, Any]:
    return next(entry for entry in entries if entry["name"] == name)
