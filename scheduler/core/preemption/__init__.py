"""Preemption: the units to evict so that a root fits, as DefaultPreemption does for one pod.

plan                preempt(state, root, refusal, budget) -> Plan | Refusal
equal_plans         plans for many equal pods at once
candidates          sets of units that suffice, the cheapest part of the cluster first
fewest              sets of units in the order of their cost, fewest units first
necessary           arithmetic that rules out most sets of units that do not suffice
proof               the proof that no other set of victims is cheaper
exact_fit           the proof that a root does not fit, by checking all placements
cost                the cost of sets of victims
dry_run             dry runs: `place` decides if the root fits without given units
protected_units     units that PodDisruptionBudgets protect

The units and the PodDisruptionBudgets themselves are in `state`.
"""
