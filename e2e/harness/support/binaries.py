"""The programs that `e2e.harness.controlplane.build` makes, for tests that run one."""

from pathlib import Path

import pytest

from e2e.harness.controlplane.places import BIN


def binary(name: str) -> Path:
    """Its path. Skips the test where it is not built.

    The suite on the embedded cluster may run while the control plane is being built.
    """
    path = BIN / name
    if not path.is_file():
        pytest.skip(
            f"{name} is not built: run python -m e2e.harness.controlplane.build [--monitoring]"
        )
    return path
