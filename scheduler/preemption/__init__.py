"""Carry out evictions that were decided.

`Preemptor` is the entry point.
"""
