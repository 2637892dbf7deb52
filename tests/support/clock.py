"""Virtual time for tests, provided by the embedded cluster."""

from localcluster.testing.clock import FakeClock, settle

__all__ = ["FakeClock", "settle"]
