"""The freeze: nothing changes what long work reads, while the work gives way in the middle."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import structlog

_log = structlog.get_logger()


class Freeze:
    """A guard for long work: others wait until it is `over`, or leave a change to `when_over`.

    The work runs in a `with` block. Others notice the freeze only if the work gives way.
    """

    def __init__(self) -> None:
        self._lasts = False
        self._waiting: list[asyncio.Future[None]] = []
        self._postponed: list[Callable[[], None]] = []

    @property
    def is_active(self) -> bool:
        """True if work that gave way is under way."""
        return self._lasts

    def __enter__(self) -> None:
        if self._lasts:
            raise RuntimeError("the freeze is already active: wait until it is over")
        self._lasts = True

    def __exit__(self, *_error: object) -> None:
        self._lasts = False
        postponed, self._postponed = self._postponed, []
        for act in postponed:
            try:
                act()
            except Exception:  # noqa: BLE001 - logged; the others are carried out
                _log.exception("failed to apply a postponed change")
        # After the postponed changes: a waiting task sees the state with all of them.
        waiting, self._waiting = self._waiting, []
        for each in waiting:
            if not each.done():
                each.set_result(None)

    async def over(self) -> None:
        """Wait until the freeze is over; return immediately if there is none."""
        # Another freeze may have begun before this task runs.
        while self._lasts:
            each = asyncio.get_running_loop().create_future()
            self._waiting.append(each)
            await each

    def when_over(self, act: Callable[[], None]) -> None:
        """Carry out the change as soon as the freeze is over, in the order of the calls."""
        if self._lasts:
            self._postponed.append(act)
        else:
            act()
