"""Certificates that another component maintains."""

import os
from datetime import UTC, datetime
from pathlib import Path

import pytest

from certs.authority import new_material
from certs.material import ServerNames
from certs.sources import MountedFolder, OwnAuthority, SourceError
from certs.stores import FolderStore

NOW = datetime(2026, 3, 1, tzinfo=UTC)
NAMES = ServerNames.of_host("127.0.0.1")
MADE = new_material(NAMES, NOW)


def mount(folder: Path, *without: str) -> MountedFolder:
    files = {"tls.crt": MADE.server_cert, "tls.key": MADE.server_key, "ca.crt": MADE.ca_cert}
    for name, pem in files.items():
        if name not in without:
            (folder / name).write_bytes(pem)
    return MountedFolder(folder)


async def test_a_mounted_secret_is_served_as_it_is_and_read_again(tmp_path: Path) -> None:
    source = mount(tmp_path)
    first = await source.current(NOW)
    renewed = new_material(NAMES, NOW)
    (tmp_path / "tls.crt").write_bytes(renewed.server_cert)
    (tmp_path / "tls.key").write_bytes(renewed.server_key)
    second = await source.current(NOW)

    assert first == MADE.serving
    assert second.server_cert == renewed.server_cert
    assert set(os.listdir(tmp_path)) == {"tls.crt", "tls.key", "ca.crt"}


@pytest.mark.parametrize("missing", ["tls.crt", "tls.key", "ca.crt"])
async def test_a_mounted_secret_that_lacks_a_part_is_said(tmp_path: Path, missing: str) -> None:
    with pytest.raises(SourceError, match=f"{missing}: No such file"):
        await mount(tmp_path, missing).current(NOW)


async def test_a_mounted_secret_that_holds_no_certificate_is_said(tmp_path: Path) -> None:
    source = mount(tmp_path)
    (tmp_path / "tls.crt").write_text("no")

    with pytest.raises(SourceError, match=r"tls\.crt: is not a PEM certificate"):
        await source.current(NOW)


async def test_a_key_of_another_certificate_is_said(tmp_path: Path) -> None:
    source = mount(tmp_path)
    (tmp_path / "tls.key").write_bytes(new_material(NAMES, NOW).server_key)

    with pytest.raises(SourceError, match=r"tls\.key: does not belong"):
        await source.current(NOW)


async def test_our_own_authority_gives_what_its_store_holds(tmp_path: Path) -> None:
    store = FolderStore(tmp_path)

    serving = await OwnAuthority(store, NAMES).current(NOW)

    held = (await store.read()).material
    assert held is not None
    assert serving == held.serving
