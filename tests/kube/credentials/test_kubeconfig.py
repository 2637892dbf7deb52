"""Plain kubeconfig files are read as by the official client."""

import base64
import os
import ssl
from pathlib import Path
from typing import Any

import pytest
import yaml

from kube.base.errors import ConfigError
from kube.credentials import kubeconfig
from kube.credentials.loading import load
from kube.credentials.rest_config import RestConfig
from tests.support import official_config
from tests.support.api_server import server_certificate

SERVER = "https://127.0.0.1:6443"


@pytest.mark.parametrize(
    ("cluster", "user"),
    [
        pytest.param({}, {"token": "t"}, id="token"),
        pytest.param({}, {"tokenFile": "token"}, id="token file beside the kubeconfig"),
        pytest.param({}, {"token": "t", "tokenFile": "token"}, id="token before its file"),
        pytest.param({}, {"username": "u", "password": "p"}, id="password"),
        pytest.param({}, {"username": "u"}, id="user name without a password"),
        pytest.param({}, {"token": "", "username": "u", "password": "p"}, id="empty token"),
        pytest.param({"server": SERVER + "/k8s/c-1/"}, {"token": "t"}, id="path"),
        pytest.param({"server": "http://localhost:8080"}, {"token": "t"}, id="plain HTTP"),
        pytest.param({"server": "http://localhost:8080"}, {}, id="nobody, by plain HTTP"),
        pytest.param({"insecure-skip-tls-verify": True}, {"token": "t"}, id="unverified"),
        pytest.param({"insecure-skip-tls-verify": False}, {"token": "t"}, id="verified"),
        pytest.param({"tls-server-name": "kubernetes"}, {"token": "t"}, id="server name"),
        pytest.param({"proxy-url": "http://proxy:3128"}, {"token": "t"}, id="proxy"),
        pytest.param({"certificate-authority": "ca.pem"}, {"token": "t"}, id="CA file"),
        pytest.param({"certificate-authority-data": "CA"}, {"token": "t"}, id="CA data"),
        pytest.param(
            {"certificate-authority-data": "CA", "certificate-authority": "nowhere"},
            {"token": "t"},
            id="CA data before its file",
        ),
        pytest.param({}, {"client-certificate": "ca.pem", "client-key": "ca.pem"}, id="files"),
        pytest.param({}, {"client-certificate-data": "CA", "client-key-data": "CA"}, id="data"),
    ],
)
async def test_a_plain_file_means_the_same_to_both(
    tmp_path: Path, cluster: dict[str, Any], user: dict[str, Any]
) -> None:
    path = written(tmp_path, cluster, user)
    ours = kubeconfig.read(path)

    assert ours is not None
    assert await facts(ours) == await facts(await official_config.read(str(path)))


@pytest.mark.parametrize(
    "user", [{"exec": {"command": "true"}}, {"auth-provider": {"name": "oidc"}}]
)
def test_plugins_and_providers_are_not_plain(tmp_path: Path, user: dict[str, Any]) -> None:
    assert kubeconfig.read(written(tmp_path, {}, user)) is None


@pytest.mark.parametrize(
    ("context", "want"),
    [
        pytest.param({"namespace": "team"}, "team", id="said"),
        pytest.param({"namespace": ""}, "default", id="empty"),
        pytest.param({"namespace": None}, "default", id="null"),
        pytest.param({}, "default", id="not said"),
    ],
)
async def test_the_namespace_of_the_context_means_the_same_to_both(
    tmp_path: Path, context: dict[str, Any], want: str
) -> None:
    path = written(tmp_path, {}, {"token": "t"})
    document = yaml.safe_load(path.read_text())
    document["contexts"][0]["context"] |= context
    path.write_text(yaml.safe_dump(document))
    ours = kubeconfig.read(path)

    assert ours is not None
    assert [ours.namespace, (await official_config.read(str(path))).namespace] == [want, want]


async def test_several_files_are_merged(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    one = written(tmp_path / "a", {"server": SERVER}, {"token": "one"})
    two = tmp_path / "b" / "kubeconfig"
    two.write_text(yaml.safe_dump({"users": [], "clusters": [], "contexts": []}))

    read = await load(os.pathsep.join((str(one), str(two))))

    assert (await read.authorization(), read.server) == ("Bearer one", SERVER)


async def test_of_several_files_the_first_that_has_a_name_wins_as_in_kubectl(
    tmp_path: Path,
) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    one = written(tmp_path / "a", {"certificate-authority": "ca.pem"}, {"token": "one"})
    two = written(tmp_path / "b", {"server": "https://elsewhere"}, {"tokenFile": "token"})
    document = yaml.safe_load(one.read_text())
    del document["users"]
    one.write_text(yaml.safe_dump(document))
    both = os.pathsep.join((str(one), str(two)))

    read = await load(both)

    # The token file is next to the second file, the CA next to the first one.
    assert (await read.authorization(), read.server) == ("Bearer from-file", SERVER)
    assert await facts(read) == await facts(await official_config.read(both))


async def test_of_several_files_one_that_is_there_is_enough(tmp_path: Path) -> None:
    one = written(tmp_path, {}, {"token": "one"})

    read = await load(os.pathsep.join((str(tmp_path / "nowhere"), str(one))))

    assert await read.authorization() == "Bearer one"


async def test_a_context_without_a_user_is_anonymous(tmp_path: Path) -> None:
    path = written(tmp_path, {}, {})
    document = yaml.safe_load(path.read_text())
    del document["contexts"][0]["context"]["user"]
    path.write_text(yaml.safe_dump(document))
    read = kubeconfig.read(path)

    assert read is not None
    assert await read.authorization() is None


@pytest.mark.parametrize(
    ("cluster", "user", "want"),
    [
        pytest.param({"server": None}, {}, "server", id="no server"),
        pytest.param({"server": 7}, {}, r"\$.server", id="a server that is a number"),
        pytest.param({"certificate-authority": "no"}, {}, "certificate-authority: ", id="no CA"),
        pytest.param(
            {"certificate-authority-data": "%"}, {}, "certificate-authority-data", id="no base64"
        ),
        pytest.param(
            {"certificate-authority-data": "d29yZHM="}, {}, "certificates for", id="a CA of words"
        ),
        pytest.param({"certificate-authority": "empty"}, {}, "is empty", id="an empty CA"),
        pytest.param({}, {"token": 7}, r"\$.token", id="a token that is a number"),
        pytest.param({}, {"tokenFile": "no"}, "tokenFile", id="no token file"),
        pytest.param({}, "x", "object", id="a user that is a word"),
    ],
)
def test_what_is_wrong_is_named(
    tmp_path: Path, cluster: dict[str, Any], user: Any, want: str
) -> None:
    with pytest.raises(ConfigError, match=f"kubeconfig .*{want}|{want}"):
        kubeconfig.read(written(tmp_path, cluster, user))


@pytest.mark.parametrize("where", ["clusters", "contexts", "users"])
def test_a_name_that_is_there_twice_is_refused(tmp_path: Path, where: str) -> None:
    path = written(tmp_path, {}, {"token": "t"})
    document = yaml.safe_load(path.read_text())
    document[where] *= 2
    path.write_text(yaml.safe_dump(document))

    with pytest.raises(ConfigError, match=f"{where}: found 2 with the name 'test'"):
        kubeconfig.read(path)


def test_the_key_of_a_client_certificate_stays_in_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    user = {"client-certificate-data": "CA", "client-key-data": "CA"}
    path = written(tmp_path, {}, user)  # creates the certificate, in a file of its own
    monkeypatch.setattr("tempfile.tempdir", str(scratch))

    read = kubeconfig.read(path)

    assert read is not None
    assert read.tls is not None
    assert list(scratch.iterdir()) == []


def test_the_client_certificate_is_shown_to_the_server(tmp_path: Path) -> None:
    user = {"client-certificate-data": "CA", "client-key-data": "CA"}
    read = kubeconfig.read(written(tmp_path, {"certificate-authority-data": "CA"}, user))

    assert read is not None
    assert read.tls is not None
    assert shown_to_a_server(read.tls.context) == ssl.PEM_cert_to_DER_cert(certificate())


def test_comments_between_certificates_need_not_be_ascii(tmp_path: Path) -> None:
    path = written(tmp_path, {"certificate-authority": "named.pem"}, {"token": "t"})
    (tmp_path / "named.pem").write_text("# Főtanúsítvány\n" + certificate())
    read = kubeconfig.read(path)

    assert read is not None
    assert read.tls is not None
    assert len(read.tls.context.get_ca_certs()) == 1


async def facts(read: RestConfig) -> dict[str, Any]:
    tls = read.tls and read.tls.context
    return {
        "server": read.server,
        "server name": read.server_name,
        "proxy": read.proxy,
        "namespace": read.namespace,
        "authorization": await read.authorization(),
        "tls": tls and (tls.verify_mode, tls.check_hostname, tls.get_ca_certs()),
    }


def written(folder: Path, cluster: dict[str, Any], user: Any) -> Path:
    """Write a kubeconfig; `CA` as data is replaced by the test's certificate with its key."""
    pem = Path(server_certificate()).read_bytes()
    (folder / "ca.pem").write_bytes(pem)
    (folder / "token").write_text("from-file")
    (folder / "empty").touch()
    encoded = base64.b64encode(pem).decode()
    cluster = {"server": SERVER} | cluster
    path = folder / "kubeconfig"
    document = {
        "current-context": "test",
        "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
        "clusters": [{"name": "test", "cluster": filled(cluster, encoded)}],
        "users": [{"name": "test", "user": filled(user, encoded)}],
    }
    path.write_text(yaml.safe_dump(document))
    return path


def filled(entry: Any, encoded: str) -> Any:
    if not isinstance(entry, dict):
        return entry
    return {key: encoded if value == "CA" else value for key, value in entry.items()}


def certificate() -> str:
    text = Path(server_certificate()).read_text()
    return text[text.index("-----BEGIN CERTIFICATE") :]


def shown_to_a_server(tls: ssl.SSLContext) -> bytes | None:
    """Return the client certificate that a server receives, in DER."""
    theirs = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    theirs.load_cert_chain(server_certificate())
    theirs.load_verify_locations(server_certificate())
    theirs.verify_mode = ssl.CERT_REQUIRED
    up, down = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = tls.wrap_bio(down, up, server_hostname="127.0.0.1")
    server = theirs.wrap_bio(up, down, server_side=True)
    for _ in range(4):
        for end in (client, server):
            try:
                end.do_handshake()
            except ssl.SSLWantReadError:
                continue
    return server.getpeercert(binary_form=True)
