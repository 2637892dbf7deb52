"""Configuration files: YAML into frozen structs, with every unknown field rejected by name."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, TypeVar

import msgspec
from msgspec import Meta

from kube.base.errors import ConfigError

Seconds = Annotated[float, Meta(gt=0)]
Count = Annotated[int, Meta(ge=1)]
T = TypeVar("T")


class Section(msgspec.Struct, rename="camel", forbid_unknown_fields=True, frozen=True):
    """A part of a file; field names are camelCase there."""


class LeaderElection(Section, frozen=True):
    """The times of leader election; lease > renew > retry. Off, the only replica is the leader."""

    enabled: bool = True
    lease_seconds: Seconds = 5.0
    renew_seconds: Seconds = 4.0
    retry_seconds: Seconds = 1.0

    def __post_init__(self) -> None:
        """Raise ValueError, which names the fields, if the order is wrong."""
        if not self.lease_seconds > self.renew_seconds > self.retry_seconds:
            raise ValueError(
                "leaseSeconds must be more than renewSeconds, and renewSeconds more than"
                " retrySeconds"
            )


def read(path: str | Path | None, form: type[T]) -> T:
    """Return the file at `path` as a `form`; the defaults for None. Raises ConfigError."""
    if path is None:
        return form()
    try:
        # An empty file has the defaults.
        return msgspec.yaml.decode(Path(path).read_bytes() or b"{}", type=form)
    except (OSError, msgspec.DecodeError) as error:
        raise ConfigError(f"{path}: {error}") from error
