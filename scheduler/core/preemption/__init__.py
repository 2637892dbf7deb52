"""Preemption: which units to evict so that a root fits, as DefaultPreemption does for one pod.

plan                preempt(state, root, refusal, budget) -> Plan | Refusal
equal_plans         plans for many equal pods at once
units               the units of preemption: pods that can only be evicted together
candidates          sets of units that suffice, the cheapest part of the cluster first
fewest              sets of units in the order of what they cost, fewest units first
necessary           arithmetic that every set which suffices passes: most sets do not
proof               whether no other set of victims is cheaper than the one that was found
exact_fit           shows that a root fits nowhere, by looking at all placements
cost                what sets of victims cost
dry_run             whether the root fits without given units, decided by `place`
disruption_budgets  PodDisruptionBudgets, and which units they protect
"""
