"""Exponential back-off with jitter, so that many clients do not retry at the same moment."""

from dataclasses import dataclass, field
from random import Random, SystemRandom


@dataclass(slots=True)
class Backoff:
    """`first` seconds doubling to `limit`; each wait is drawn from the upper half of that."""

    first: float = 0.2
    limit: float = 5.0
    random: Random = field(default_factory=SystemRandom)
    failures: int = 0

    def next(self) -> float:
        """The seconds to wait after one more failure."""
        self.failures += 1
        # The exponent is bounded: a year of failures must not make it a huge number.
        full: float = min(self.limit, self.first * 2 ** min(self.failures - 1, 32))
        return full * float(self.random.uniform(0.5, 1.0))

    def reset(self) -> None:
        """It works again."""
        self.failures = 0
