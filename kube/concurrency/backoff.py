"""Exponential back-off with jitter, so that many clients do not retry at the same moment.

`Retry-After` is respected here alone, for requests of every kind: callers that retry pass the error
of the failed attempt.
"""

from dataclasses import dataclass, field
from random import Random, SystemRandom
from typing import Final

from kube.base.errors import ApiError

LONGEST_RETRY_AFTER: Final = 60.0
"""Seconds that a server, or a proxy before it, may ask for at most."""


def retry_after(error: Exception | None) -> float:
    """Return the seconds that the server asked to wait; 0 if it did not."""
    asked = error.retry_after if isinstance(error, ApiError) else None
    return min(asked or 0.0, LONGEST_RETRY_AFTER)


@dataclass(slots=True)
class Backoff:
    """A back-off from `first` seconds, doubling to `limit`; a wait is in the upper half of that.

    It is no shorter than the server asked for.
    """

    first: float = 0.2
    limit: float = 5.0
    random: Random = field(default_factory=SystemRandom)
    failures: int = 0

    def next(self, error: Exception | None) -> float:
        """Return the seconds to wait after one more failure, with this error."""
        self.failures += 1
        # The exponent is bounded: a year of failures must not make it a huge number.
        full: float = min(self.limit, self.first * 2 ** min(self.failures - 1, 32))
        drawn = full * float(self.random.uniform(0.5, 1.0))
        asked = retry_after(error)
        # Clients must not all retry at the moment that the server named, nor any before it.
        return max(drawn, asked + min(drawn, asked / 2))

    def reset(self) -> None:
        """Start again from the shortest wait."""
        self.failures = 0
