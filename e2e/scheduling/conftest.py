"""The stage of the flows, and the parts of Muster that these tests start and stop themselves."""

from e2e.suite.conftest import (
    client,
    muster,
    pytest_runtest_makereport,
    running_muster,
    stage,
)

__all__ = ["client", "muster", "pytest_runtest_makereport", "running_muster", "stage"]
