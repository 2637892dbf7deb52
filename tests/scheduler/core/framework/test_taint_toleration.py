"""TaintToleration: taints that exclude pods, and those that make nodes less preferred."""

import pytest

from scheduler.core.values.model import Requirements, Taint, Toleration
from tests.scheduler.core.framework.cluster import chosen_disk, permitted_nodes, prefers_disk, wants
from tests.scheduler.state_builder import StateBuilder


def tolerating(operator: str, key: str = "gpu", value: str = "", effect: str = "") -> Requirements:
    return wants(tolerations=(Toleration(key, operator, value, effect),))


@pytest.mark.parametrize(
    ("requirements", "want_nodes"),
    [
        pytest.param(tolerating("Exists"), "a b c tainted", id="Exists tolerates any value"),
        pytest.param(tolerating("Exists", key=""), "a b c cordoned tainted", id="all tolerated"),
        pytest.param(tolerating("Equal", value="yes"), "a b c tainted", id="Equal value"),
        pytest.param(tolerating("", value="yes"), "a b c tainted", id="operator defaults to Equal"),
        pytest.param(tolerating("Equal", value="no"), "a b c", id="another value is no toleration"),
        pytest.param(
            tolerating("Exists", effect="NoExecute"), "a b c", id="another effect is none either"
        ),
    ],
)
def test_permitted_nodes(requirements: Requirements, want_nodes: str) -> None:
    assert permitted_nodes(requirements) == want_nodes.split()


@pytest.mark.parametrize("profile", ["pack", "spread"])
@pytest.mark.parametrize(
    ("requirements", "want"),
    [
        pytest.param(wants(), "ssd hdd", id="soft taints are avoided"),
        pytest.param(
            wants(
                preferred_node_affinity=(prefers_disk("nvme"),),
                tolerations=(Toleration("slow", "Exists", "", ""),),
            ),
            "nvme",
            id="a soft taint may be tolerated",
        ),
        pytest.param(
            wants(preferred_node_affinity=(prefers_disk("nvme"),)),
            "ssd hdd",
            id="a soft taint weighs more",
        ),
    ],
)
def test_soft_rules_choose_among_permitted_nodes(
    requirements: Requirements, want: str, profile: str
) -> None:
    assert chosen_disk(requirements, profile) <= set(want.split())


def test_soft_rules_never_keep_a_pod_out() -> None:
    builder = StateBuilder()
    builder.node("n", 2, taints=(Taint("slow", "", "PreferNoSchedule"),))
    builder.gang("g", 2)
    for _ in range(2):
        builder.pod("g", requirements=wants(preferred_node_affinity=(prefers_disk("nvme"),)))

    assert len(builder.where(builder.place("g"))) == 2
