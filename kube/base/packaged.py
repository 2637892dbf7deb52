"""Data files: in a checkout at its root, in an installed wheel inside their package."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

_TOP: Final = Path(__file__).resolve().parents[2]


def packaged(package: str, folder: str) -> Path:
    """Return the folder that comes with a top-level package, named as in the checkout.

    The wheel has `manifests/webhook` as `webhooks/manifests/webhook` (see pyproject.toml), so that
    it owns no top-level name but the packages.
    """
    installed = _TOP / package / folder
    return installed if installed.is_dir() else _TOP / folder


def yaml_objects(folder: Path) -> Iterator[Any]:
    """Yield the objects in the YAML files of such a folder, in the order of the files' names.

    Uses libyaml if it is installed: the parser in Python takes about nine times as long, which was
    half the time of `muster doctor`. Raises OSError, yaml.YAMLError.
    """
    import yaml  # an import that only readers of manifests need

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    for path in sorted(folder.glob("*.yaml")):
        yield from yaml.load_all(path.read_text("utf-8"), loader)
