"""Binaries that are built apart: what needs one is skipped where it is not, as in `make test`."""

from pathlib import Path

import pytest

from e2e.controlplane.places import BIN


def _built(name: str) -> Path:
    path = BIN / name
    if not path.is_file():
        pytest.skip(f"{name} is not built: run python -m e2e.controlplane.build [--monitoring]")
    return path


@pytest.fixture(scope="session")
def promtool() -> Path:
    return _built("promtool")


@pytest.fixture(scope="session")
def prometheus_binary() -> Path:
    return _built("prometheus")


@pytest.fixture(scope="session")
def kubectl() -> Path:
    return _built("kubectl")
