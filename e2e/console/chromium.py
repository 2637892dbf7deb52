"""The Chromium of the browser tests: the one in PATH, or else Debian's, installed once."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

NAMES = ("chromium", "chromium-browser", "google-chrome-stable", "google-chrome")
FLAGS = ("--no-sandbox", "--force-color-profile=srgb")
"""The flags of the browser; its sandbox needs privileges that containers and root lack."""
INSTALL = ("apt-get", "install", "-y", "--no-install-recommends", "chromium")


class MissingChromiumError(RuntimeError):
    """Chromium is missing and cannot be installed; the message explains what to do."""


def on_path() -> Path | None:
    """Return the first Chromium in PATH, or None."""
    found = filter(None, map(shutil.which, NAMES))
    return next(map(Path, found), None)


def chromium() -> Path:
    """Return the browser's command, installing it if needed. Raises MissingChromiumError."""
    return on_path() or _installed()


def _installed() -> Path:
    if not (shutil.which("apt-get") and os.geteuid() == 0):
        raise MissingChromiumError(
            "the browser tests need a Chromium on the path; on Debian, as root: "
            + " ".join(INSTALL)
        )
    environment = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
    for command in (("apt-get", "update"), INSTALL):
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise MissingChromiumError(
                f"{' '.join(command)} failed, so there is no Chromium:\n{done.stderr[-2000:]}"
            )
    found = on_path()
    if found is None:
        raise MissingChromiumError("Debian's package brought no command of a known name")
    return found


if __name__ == "__main__":
    try:
        print(chromium())
    except MissingChromiumError as error:
        sys.exit(str(error))
