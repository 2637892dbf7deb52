"""Limit of the work that one decision may spend on devices."""

from __future__ import annotations


class AllowanceExhaustedError(Exception):
    """The allowance of this decision is used up; results computed so far stay cached.

    The decision can be repeated: it continues from the cached results.
    """


class DeviceAllowance:
    """Counter of the work on devices: one unit for each selector evaluated or device tried.

    `most` is the limit of `spent`, None for no limit. The last step may exceed it: it is not
    interrupted.
    """

    def __init__(self) -> None:
        self.spent = 0
        self.most: int | None = None

    def check(self) -> None:
        """Raise PostponedError if no units are left for one more step."""
        if self.most is not None and self.spent >= self.most:
            raise AllowanceExhaustedError

    def charge(self, work: int) -> None:
        """Add the work of a completed step."""
        self.spent += work
