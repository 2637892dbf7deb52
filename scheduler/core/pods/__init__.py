"""Shapes of pods: pods that are equal for a decision share one.

Entry point: `shapes.Shape`.
"""
