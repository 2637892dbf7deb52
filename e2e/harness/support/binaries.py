"""The programs that `e2e.harness.controlplane.build` builds, for tests that run one."""

from pathlib import Path

import pytest

from e2e.harness.controlplane.places import BIN


def binary(name: str) -> Path:
    """Return the path of a program, or skip the test if it is not built.

    The suite on the embedded cluster may run during the build of the control plane.
    """
    path = BIN / name
    if not path.is_file():
        pytest.skip(
            f"{name} is not built: run python -m e2e.harness.controlplane.build [--monitoring]"
        )
    return path
