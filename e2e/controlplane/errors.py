"""Why the control plane cannot be built."""


class BuildError(RuntimeError):
    """The binaries cannot be built here; the message says what to do about it."""
