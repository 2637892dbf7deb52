"""What stops a release. The text names what is wrong and the way out."""


class ReleaseError(RuntimeError):
    """A release of this commit under this version cannot be made."""
