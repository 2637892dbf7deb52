"""Each kind of object that once stopped everybody, and kinds like them: now nobody notices."""

import pytest

from e2e.hostile.attacks import ATTACKS, Attack
from e2e.hostile.stage import Player


@pytest.mark.parametrize("attack", [pytest.param(each, id=each.__name__) for each in ATTACKS])
def test_another_tenant_does_not_notice(player: Player, attack: Attack) -> None:
    steps, mallory = attack(), player.stage.mallory
    mallory.admitted = 0
    mallory.refusals.clear()

    player.play(steps, gangs=3)

    print(f"{mallory.admitted} of {len(steps)} requests were admitted")
    assert 2 * mallory.admitted >= len(steps), mallory.refusals.most_common(9)
