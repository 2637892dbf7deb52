"""Errors of the lab's input."""

from kube.base.errors import ConfigError


class LabError(ConfigError):
    """Input that cannot be used. The text names the file, the line and the field."""
