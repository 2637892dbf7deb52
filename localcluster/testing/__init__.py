"""Tools for tests: a clock that stands still, and a port that leaves nothing open."""
