"""Create the files of a release: `make release VERSION=...`.

The files are built from a commit, not from the checkout, and are reproducible to the byte. This
publishes nothing and sets no tag: docs/releasing.md has the remaining steps.
"""

import argparse
import shutil
import sys
import tempfile
from pathlib import Path

from tools.release import files, krew, numbers
from tools.release.errors import ReleaseError
from tools.release.source import export

URL = "https://releases.example/muster/{version}"


def make(repository: Path, commit: str, version: str, out: Path, url: str = URL) -> None:
    """Write all files of a release to `out`, replacing an earlier one's. Raises ReleaseError."""
    with tempfile.TemporaryDirectory(prefix="muster-release-") as folder:
        source = export(repository, commit, Path(folder))
        # Before anything of an earlier release is deleted.
        numbers.check(source.folder, version)
        _empty(out)
        files.changes(source, version, out)
        files.wheels(source, out)
        files.image_context(source, version, out)
        files.manifests(source, version, out)
        files.chart(source, version, out)
        krew.write(source, version, url.format(version=version), out)
        files.bill_of_materials(source, version, out)
        files.checksums(out)


def _empty(out: Path) -> None:
    out.mkdir(parents=True, exist_ok=True)
    # Only a folder with an earlier release is emptied: --output may name any folder.
    earlier = (out / files.CHECKSUMS).is_file()
    if not earlier and any(out.iterdir()):
        raise ReleaseError(f"{out} has files that are no release's: empty it, or take --output")
    shutil.rmtree(out)
    out.mkdir()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("version")
    parser.add_argument("--commit", default="HEAD")
    parser.add_argument(
        "--url", default=URL, help="where the files will be, for the plugin's manifest"
    )
    parser.add_argument("--output", type=Path, default=numbers.ROOT / "dist")
    parsed = parser.parse_args()
    try:
        make(numbers.ROOT, parsed.commit, parsed.version, parsed.output, parsed.url)
    except ReleaseError as error:
        print(error, file=sys.stderr)
        return 1
    print((parsed.output / files.CHECKSUMS).read_text(), end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
