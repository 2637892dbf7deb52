"""Exponential back-off with jitter, so that many clients do not retry at the same moment.

Here alone `Retry-After` is respected, for requests of every kind: whoever tries again passes the
error that it got.
"""

from dataclasses import dataclass, field
from random import Random, SystemRandom
from typing import Final

from kube.base.errors import ApiError

LONGEST_RETRY_AFTER: Final = 60.0
"""What a server, or a proxy before it, may ask for at most, in seconds."""


def retry_after(error: Exception | None) -> float:
    """The seconds that the server asked to wait, 0 if it did not."""
    asked = error.retry_after if isinstance(error, ApiError) else None
    return min(asked or 0.0, LONGEST_RETRY_AFTER)


@dataclass(slots=True)
class Backoff:
    """`first` seconds doubling to `limit`; each wait is drawn from the upper half of that.

    It is no shorter than the server asked for.
    """

    first: float = 0.2
    limit: float = 5.0
    random: Random = field(default_factory=SystemRandom)
    failures: int = 0

    def next(self, error: Exception | None) -> float:
        """The seconds to wait after one more failure, and after this error."""
        self.failures += 1
        # The exponent is bounded: a year of failures must not make it a huge number.
        full: float = min(self.limit, self.first * 2 ** min(self.failures - 1, 32))
        drawn = full * float(self.random.uniform(0.5, 1.0))
        asked = retry_after(error)
        # Not all at the moment that the server named, nor any before it.
        return max(drawn, asked + min(drawn, asked / 2))

    def reset(self) -> None:
        """It works again."""
        self.failures = 0
