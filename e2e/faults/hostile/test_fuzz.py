"""Objects drawn from the grammar, written by `edit` accounts, which must not affect others."""

from collections import Counter

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from e2e.faults.hostile.grammar import campaigns
from e2e.faults.hostile.stage import Player
from e2e.faults.hostile.steps import Step

CAMPAIGNS = 60
ADMITTED = 0.6
"""Minimum share of requests that the API server must admit: rejected ones do not test Muster."""


# The failure shows the campaign as YAML; Hypothesis shows it too, and warns about its size.
@pytest.mark.filterwarnings("ignore:Generating overly large repr")
@pytest.mark.long
def test_whatever_is_written_nobody_notices(player: Player) -> None:
    hostile = player.stage.hostile
    at_once = len(hostile)

    @settings(
        max_examples=CAMPAIGNS // at_once,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(drawn=st.lists(campaigns(), min_size=at_once, max_size=at_once))
    def no_harm(drawn: list[list[Step]]) -> None:
        player.play(*drawn)

    no_harm()

    admitted = sum(each.admitted for each in hostile)
    refusals = sum((each.refusals for each in hostile), Counter[str]())
    asked = admitted + refusals.total()
    print(f"{admitted} of {asked} requests were admitted")
    assert admitted >= ADMITTED * asked, refusals.most_common(50)
