"""Errors that stop a release. The text names the problem and the solution."""


class ReleaseError(RuntimeError):
    """A release of this commit under this version is impossible."""
