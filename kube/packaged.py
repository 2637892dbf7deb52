"""Files that are no code: in a checkout at its root, in an installed wheel inside their package."""

from pathlib import Path


def packaged(module: str, folder: str) -> Path:
    """The folder that comes with a package, named as in the checkout; `module` is `__file__`.

    The wheel has `manifests/webhook` as `webhooks/manifests/webhook` (see pyproject.toml), so that
    it owns no top-level name besides the packages.
    """
    package = Path(module).resolve().parent
    installed = package / folder
    return installed if installed.is_dir() else package.parent / folder
