"""Separately built binaries: tests without theirs are skipped, as in `make test`."""

from pathlib import Path

import pytest

from e2e.harness.support.binaries import binary


@pytest.fixture(scope="session")
def promtool() -> Path:
    return binary("promtool")


@pytest.fixture(scope="session")
def prometheus_binary() -> Path:
    return binary("prometheus")


@pytest.fixture(scope="session")
def kubectl() -> Path:
    return binary("kubectl")
