"""Secrets as files: the kubelet's part for the pods that mount them."""

import base64
import os
import shutil
from pathlib import Path

from e2e.harness.support.rest import Object, Rest

_CURRENT = "..data"


class MountedSecret:
    """A folder with a file for each key of a Secret; all of them change atomically."""

    def __init__(self, path: str, folder: Path) -> None:
        """Create the folder of a Secret at `path`; it is empty before the first `refresh`."""
        self._path = path
        self.folder = folder
        self._version = ""

    async def refresh(self, rest: Rest) -> bool:
        """Copy the Secret's current content; return False until it exists for the first time."""
        answer = await rest.get(self._path)
        if answer.status == 404:
            return bool(self._version)
        secret = answer.ok()
        if secret["metadata"]["resourceVersion"] != self._version:
            self._write(secret)
        return True

    def _write(self, secret: Object) -> None:
        before, self._version = self._version, secret["metadata"]["resourceVersion"]
        made = self.folder / f"..{self._version}"
        made.mkdir(parents=True)
        for key, value in secret["data"].items():
            (made / key).write_bytes(base64.b64decode(value))
            link = self.folder / key
            if not link.is_symlink():
                link.symlink_to(Path(_CURRENT) / key)
        swapped = self.folder / "..data.new"
        swapped.symlink_to(made.name)
        os.replace(swapped, self.folder / _CURRENT)
        if before:
            shutil.rmtree(self.folder / f"..{before}")
