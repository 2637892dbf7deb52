"""Shapes of pods: those that are equal to a decision share one.

`Shape` is the entry point.
"""
