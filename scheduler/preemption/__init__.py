"""Evictions: what preemption has decided is carried out.

`Preemptor` is the entry point.
"""
