"""tools.release.archives: the same members result in the same bytes."""

import os
import tarfile
from pathlib import Path

import pytest

from tools.release import archives


def tree(folder: Path, *, when: int, mask: int) -> Path:
    (folder / "sub").mkdir(parents=True)
    for name, executable in (("b", False), ("sub/a", False), ("run", True)):
        file = folder / name
        file.write_text(name)
        file.chmod((0o777 if executable else 0o666) & ~mask)
        os.utime(file, (when, when))
    return folder


def test_neither_times_nor_masks_nor_order_are_in_an_archive(tmp_path: Path) -> None:
    one = tree(tmp_path / "one", when=1, mask=0o022)
    other = tree(tmp_path / "other", when=2_000_000_000, mask=0o077)

    archives.write(tmp_path / "1.tar.gz", archives.files(one, ["b", "sub", "run"]), 1_700_000_000)
    archives.write(tmp_path / "2.tar.gz", archives.files(other, ["run", "sub", "b"]), 1_700_000_000)

    assert (tmp_path / "1.tar.gz").read_bytes() == (tmp_path / "2.tar.gz").read_bytes()
    with tarfile.open(tmp_path / "1.tar.gz") as tar:
        found = [(one.name, one.mode, one.mtime, one.uid, one.uname) for one in tar]
    assert found == [
        ("b", 0o644, 1_700_000_000, 0, ""),
        ("run", 0o755, 1_700_000_000, 0, ""),
        ("sub/a", 0o644, 1_700_000_000, 0, ""),
    ]


@pytest.mark.parametrize("clock", [1, 2_000_000_000])
def test_what_was_packed_with_a_clock_is_packed_without(tmp_path: Path, clock: int) -> None:
    folder = tree(tmp_path / "tree", when=clock, mask=0o022)
    packed = tmp_path / "chart.tgz"
    with tarfile.open(packed, "w:gz") as tar:
        tar.add(folder, arcname="muster")

    archives.repack(packed, tmp_path / "again.tgz", 1_700_000_000)
    archives.write(
        tmp_path / "want.tgz",
        {f"muster/{name}": it for name, it in archives.files(folder, ["b", "run", "sub"]).items()},
        1_700_000_000,
    )

    assert (tmp_path / "again.tgz").read_bytes() == (tmp_path / "want.tgz").read_bytes()
