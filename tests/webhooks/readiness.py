"""Readiness that a test can await."""

import asyncio

from webhooks.server.readiness import SERVING, Readiness


class AwaitableReadiness(Readiness):
    """Readiness that sets `is_serving` once the listener responds, `is_ready` after every check."""

    def __init__(self) -> None:
        super().__init__()
        self.is_ready = asyncio.Event()
        self.is_serving = asyncio.Event()

    def met(self, check: str) -> None:
        super().met(check)
        if self.holds(SERVING):
            self.is_serving.set()
        if self.ready:
            self.is_ready.set()
