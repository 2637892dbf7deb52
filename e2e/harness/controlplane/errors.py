"""Errors of building the control plane."""


class BuildError(RuntimeError):
    """The binaries cannot be built here; the message explains what to do."""


class MissingGoError(BuildError):
    """Neither PATH nor the package provides a suitable Go."""
