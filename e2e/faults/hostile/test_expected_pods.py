"""Groups that expect pods: they take no more from another tenant than the configuration allows."""

from collections.abc import Iterator

import pytest

from api.features import Feature
from e2e.faults.hostile.attacks import Attack
from e2e.faults.hostile.expected_pods import ATTACKS, CLAIM_ATTACKS, HOLDING, SCENARIOS
from e2e.faults.hostile.scenarios import Scenario
from e2e.faults.hostile.stage import Player
from e2e.harness.devices import SINCE
from e2e.harness.gates import switched_on
from e2e.harness.muster import STATUS, Muster


@pytest.fixture(scope="module", autouse=True)
def gate(running_muster: Muster) -> Iterator[None]:
    scheduler = {"status": STATUS, "holding": HOLDING}
    with switched_on(running_muster, Feature.EXPECTED_PODS, scheduler=scheduler):
        yield


@pytest.mark.long
@pytest.mark.parametrize(
    "attack",
    [
        *(pytest.param(each, id=each.__name__) for each in ATTACKS),
        *(
            pytest.param(each, id=each.__name__, marks=pytest.mark.since(*SINCE))
            for each in CLAIM_ATTACKS
        ),
    ],
)
def test_another_tenant_does_not_notice(player: Player, attack: Attack) -> None:
    steps, mallory = attack(), player.stage.mallory
    mallory.admitted = 0
    mallory.refusals.clear()

    player.play(steps, gangs=3)

    print(f"{mallory.admitted} of {len(steps)} requests were admitted")
    assert 10 * mallory.admitted >= 9 * len(steps), mallory.refusals.most_common(9)


@pytest.mark.long
@pytest.mark.parametrize("scenario", [pytest.param(it, id=it.__name__) for it in SCENARIOS])
def test_another_tenant_gets_its_room(player: Player, scenario: Scenario) -> None:
    player.act(scenario)
