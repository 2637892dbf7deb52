"""Virtual time for tests; it comes with the embedded cluster."""

from localcluster.testing.clock import FakeClock, settle

__all__ = ["FakeClock", "settle"]
