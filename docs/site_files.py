"""A hook of MkDocs: the site's pages are files of the repository, under their own paths.

So README.md is the front page, and a relative link means the same on the site as in a checkout.
"""

from collections.abc import Iterator
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

PATTERNS = (
    "README.md",
    "CONTRIBUTING.md",
    "CHANGELOG.md",
    "CODE_OF_CONDUCT.md",
    "GOVERNANCE.md",
    "SECURITY.md",
    "SUPPORT.md",
    "docs/**/*.md",
    "docs/pictures/*.svg",
    "docs/pictures/console/*.png",
    "e2e/README.md",
    "examples/**/*.yaml",
    "examples/**/*.py",
    "localcluster/README.md",
    "clients/*/README.md",
)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Puts the repository's files in the place of those of `docs_dir`; a theme's own stay."""
    root = Path(config.config_file_path).parent
    own = Path(config.docs_dir)
    kept = [file for file in files if not _inside(file, own)]
    return Files([*kept, *(_file(root, name, config) for name in sorted(names(root)))])


def names(root: Path) -> Iterator[str]:
    """Paths from the root of the repository, with slashes."""
    for pattern in PATTERNS:
        yield from (path.relative_to(root).as_posix() for path in root.glob(pattern))


def _file(root: Path, name: str, config: MkDocsConfig) -> File:
    return File(name, str(root), config.site_dir, config.use_directory_urls)


def _inside(file: File, folder: Path) -> bool:
    return file.abs_src_path is not None and Path(file.abs_src_path).is_relative_to(folder)
