"""The scheduler's configuration file: YAML with the fields below, all of them optional."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

Seconds = Annotated[float, Meta(gt=0)]
Count = Annotated[int, Meta(ge=1)]


class ConfigError(Exception):
    """The file cannot be read or says something that is not understood."""


class _Section(msgspec.Struct, rename="camel", forbid_unknown_fields=True, frozen=True):
    pass


class Election(_Section, frozen=True):
    """Leader election; times in seconds, lease > renew > retry."""

    enabled: bool = True
    name: str = "muster-scheduler"
    lease_seconds: Seconds = 15
    renew_seconds: Seconds = 10
    retry_seconds: Seconds = 2


class Search(_Section, frozen=True):
    """How hard one decision tries: fills of a leaf, and milliseconds."""

    steps: Count = 500
    milliseconds: Count = 100


class Status(_Section, frozen=True):
    """When conditions are written: so long after a change, and so much later while binding.

    A group that waits for members is reported on its pods once it has not changed for `pods`.
    """

    delay_seconds: Seconds = 0.5
    busy_seconds: Seconds = 4
    pods_seconds: Seconds = 5
    writers: Count = 8


class Config(_Section, frozen=True):
    """The whole file. `namespace` is where the lease lives; `port` 0 serves no status pages."""

    namespace: str = "muster-system"
    host: str = "127.0.0.1"
    port: int = 0
    profile: Literal["pack", "spread"] = "pack"
    bind_workers: Count = 36
    bind_timeout_seconds: Seconds = 120
    retry_seconds: Seconds = 60
    election: Election = Election()
    search: Search = Search()
    status: Status = Status()


def load(path: str | Path | None) -> Config:
    """Read the file; None gives the defaults. Raises ConfigError."""
    if path is None:
        return Config()
    try:
        return msgspec.yaml.decode(Path(path).read_bytes() or b"{}", type=Config)
    except (OSError, msgspec.DecodeError) as error:
        raise ConfigError(f"{path}: {error}") from error
