"""One life of an installation from end to end; `make e2e-operate` calls it."""
