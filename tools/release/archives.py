"""Archives whose bytes depend only on their members: not on clock, owner, umask or order."""

import gzip
import io
import tarfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path


def write(target: Path, members: Mapping[str, tuple[bytes, int]], epoch: int) -> None:
    """Write a .tar.gz of these files: name -> content and mode. `epoch` is the time of all."""
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for name in sorted(members):
            content, mode = members[name]
            tar.addfile(_entry(name, len(content), mode, epoch), io.BytesIO(content))
    # No file name in the gzip header, and the commit's time instead of the clock's.
    with target.open("wb") as file, gzip.GzipFile("", "wb", fileobj=file, mtime=epoch) as packed:
        packed.write(raw.getvalue())


def files(folder: Path, names: Iterable[str]) -> dict[str, tuple[bytes, int]]:
    """Return the named files of a folder, and those below named folders, as input of `write`."""
    return {
        path.relative_to(folder).as_posix(): (path.read_bytes(), path.stat().st_mode)
        for name in names
        for path in _below(folder / name)
    }


def repack(source: Path, target: Path, epoch: int) -> None:
    """Copy another .tar.gz, which has times of a clock, into one with the same names and modes."""
    with tarfile.open(source) as tar:
        members = {
            member.name: (packed.read(), member.mode)
            for member in tar
            if (packed := tar.extractfile(member)) is not None
        }
    write(target, members, epoch)


def _below(path: Path) -> Iterator[Path]:
    if path.is_file():
        yield path
    yield from (below for below in path.rglob("*") if below.is_file())


def _entry(name: str, size: int, mode: int, epoch: int) -> tarfile.TarInfo:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mtime = size, epoch
    # Only the executable bit counts: the rest depends on the umask.
    entry.mode = 0o755 if mode & 0o100 else 0o644
    return entry
