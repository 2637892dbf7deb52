"""Invariants of any plan, whatever its cost."""

from scheduler.core.preemption.plan import Plan
from scheduler.core.state.search_memory import SearchMemory
from tests.scheduler.oracle.instances import PREEMPTOR, ROOT
from tests.scheduler.preemption_builder import PreemptionBuilder


def lawful(builder: PreemptionBuilder, plan: Plan) -> None:
    """Check that victims are complete units of lower priority, enough, and each needed."""
    for unit in plan.victims:
        assert unit.priority < PREEMPTOR
        if unit.group is not None:
            members = [
                pod.info.uid
                for leaf in unit.group.leaves()
                for pod in leaf.members.values()
                if pod.info.node
            ]
            assert set(unit.pods) == set(members)
        others = [uid for other in plan.victims if other is not unit for uid in other.pods]
        assert not builder.fits_without(ROOT, others), f"{unit.name} need not go"
    everyone = [uid for unit in plan.victims for uid in unit.pods]
    assert builder.fits_without(ROOT, everyone, memory=SearchMemory())
