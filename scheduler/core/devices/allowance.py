"""Limit of the work that one decision may spend on devices."""

from __future__ import annotations


class AllowanceExhaustedError(Exception):
    """The allowance of this decision is used up; results computed so far stay cached.

    The decision can be repeated: it continues from the cached results.
    """


class DeviceAllowance:
    """Counter of the work on devices: one unit for each selector evaluated or device tried."""

    def __init__(self) -> None:
        self.spent = 0
        self._most: int | None = None

    def allow(self, work: int | None) -> None:
        """Allow `work` more units from now on, or any number with None.

        The last step may exceed the limit: it is not interrupted.
        """
        self._most = None if work is None else self.spent + work

    def check(self) -> None:
        """Raise PostponedError if no units are left for one more step."""
        if self._most is not None and self.spent >= self._most:
            raise AllowanceExhaustedError

    def charge(self, work: int) -> None:
        """Add the work of a completed step."""
        self.spent += work
