"""Readiness that a test can wait for."""

import asyncio

from webhooks.server.readiness import SERVING, Readiness


class AwaitableReadiness(Readiness):
    """Sets `is_serving` once the listener answers and `is_ready` once every check holds."""

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
