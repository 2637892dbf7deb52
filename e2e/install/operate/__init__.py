"""The life cycle of an installation from end to end; `make e2e-operate` runs it."""
