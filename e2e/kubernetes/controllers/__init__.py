"""Recorded behavior of the real Job and JobSet controllers, which the embedded ones must match."""
