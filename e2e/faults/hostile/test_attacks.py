"""Every kind of object that once stopped all tenants, and similar ones: none has effect now."""

import pytest

from e2e.faults.hostile.attacks import ATTACKS, Attack
from e2e.faults.hostile.stage import Player
from tools.testing.effort import selected

SHORT = ("years_of_grace",)
"""The attack of the short run; `tests/hostile` plays all of them in memory."""


@pytest.mark.parametrize("attack", selected({each.__name__: each for each in ATTACKS}, SHORT))
def test_another_tenant_does_not_notice(player: Player, attack: Attack) -> None:
    steps, mallory = attack(), player.stage.mallory
    mallory.admitted = 0
    mallory.refusals.clear()

    player.play(steps, gangs=3)

    print(f"{mallory.admitted} of {len(steps)} requests were admitted")
    assert 2 * mallory.admitted >= len(steps), mallory.refusals.most_common(9)
