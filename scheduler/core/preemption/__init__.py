"""Whom to evict so that a root fits.

plan                preempt(state, root, refusal, budget) -> Plan | Refusal
units               what can only be evicted as a whole, as a table of pods
candidates          sets of units to look at, the cheapest part of the cluster first
dry_run             does the root fit without these units? asked of the one solver
disruption_budgets  PodDisruptionBudgets, and which units they protect
"""
