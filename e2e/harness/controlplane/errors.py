"""Why the control plane cannot be built."""


class BuildError(RuntimeError):
    """The binaries cannot be built here; the message says what to do about it."""


class MissingGoError(BuildError):
    """Neither the path nor the package gives a Go that will do."""
