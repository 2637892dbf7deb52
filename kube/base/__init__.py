"""The frame of a process: settings, clock, errors, metrics, status server."""
