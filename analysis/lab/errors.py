"""What the lab cannot work with."""

from kube.base.errors import ConfigError


class LabError(ConfigError):
    """Input that cannot be used; the text names the file, the line and the field."""
