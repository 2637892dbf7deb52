"""How much work one decision may spend on devices."""

from __future__ import annotations


class PostponedError(Exception):
    """What this decision may spend is used up. What was found out stays known.

    The decision can be made anew: it goes on from there.
    """


class Allowance:
    """Counts the work on devices; one unit for each selector judged and each device tried."""

    def __init__(self) -> None:
        self.spent = 0
        self._most: int | None = None

    def allow(self, work: int | None) -> None:
        """Spend at most so much from now on, and what the last step takes; None: any work."""
        self._most = None if work is None else self.spent + work

    def check(self) -> None:
        """Ask for one more step. Raises PostponedError if there is nothing left."""
        if self._most is not None and self.spent >= self._most:
            raise PostponedError

    def charge(self, work: int) -> None:
        """A step is done."""
        self.spent += work
