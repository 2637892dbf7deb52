"""The check finds each access to the state after an `await` without `freeze.over()`."""

import pytest

from tests.structure.graph import ROOT
from tools.checks.after_await import accesses

CLASS = """
class Part:
    def _reads(self):
        return self._state.pods

    def _through(self):
        return self._reads()

    async def _settles(self):
        await self._api.get()
        await self._freeze.over()

    async def _opens(self):
        self._state.touch()
        await self._api.get()

    async def run(self):
"""


def found(body: str) -> int:
    """Return the number of lines of the coroutine `run` that the check reports."""
    lines = (f"        {line}" for line in body.strip("\n").split("\n"))
    return len(accesses(CLASS + "\n".join(lines)))


@pytest.mark.parametrize(
    "body",
    [
        "await self._api.get()\nself._state.touch()",
        "await self._api.get()\nself._reads()",
        "await self._api.get()\nself._through()",
        "self._queue.add(await self._api.get())",
        "await self._api.get()\nawait self._opens()",
        "group.create_task(self._opens())",
        "async def worker():\n    self._reads()\ngroup.create_task(worker())",
        "return Write(lambda: self._opens())",
        "while True:\n    self._reads()\n    await self._api.get()",
        "for each in things:\n    if each:\n        continue\n    self._reads()\n    await x()",
        "async for each in things:\n    self._reads()",
        "async with thing:\n    self._reads()",
        "if a:\n    await self._api.get()\nself._reads()",
        "try:\n    await self._api.get()\nexcept KubeError:\n    self._reads()",
        "try:\n    await self._api.get()\nfinally:\n    self._reads()",
        "match await self._api.get():\n    case 1:\n        self._reads()",
        "await self._freeze.over()\nawait self._api.get()\nself._reads()",
    ],
)
def test_what_is_touched_too_early_is_found(body: str) -> None:
    assert found(body) == 1


@pytest.mark.parametrize(
    "body",
    [
        "self._reads()",
        "await self._api.get()\nawait self._freeze.over()\nself._reads()",
        "await self._settles()\nself._reads()",
        "await self._opens()",
        "while True:\n    await self._freeze.over()\n    self._reads()\n    await self._api.get()",
        "await self._api.get()\nself._freeze.when_over(self._reads)",
        "await self._freeze.over()\nwith self._freeze:\n    await x()\n    self._reads()",
        "await x()\nif self._freeze.is_active:\n    await self._freeze.over()\nself._reads()",
        "if a:\n    await self._api.get()\n    return\nself._reads()",
        "await self._api.get()\ndef later():\n    self._reads()",
        "async def worker():\n    await self._freeze.over()\n    self._reads()",
        "return Write(lambda: self._settles())",
    ],
)
def test_what_is_in_order_is_not(body: str) -> None:
    assert found(body) == 0


def test_it_fails_where_the_rule_is_broken_on_purpose() -> None:
    """The test removes the check after an await in the binder."""
    source = (ROOT / "scheduler" / "binding" / "binder.py").read_text(encoding="utf-8")
    assert source.count("await self._freeze.over()") > 2
    assert accesses(source.replace("await self._freeze.over()", "pass"))
