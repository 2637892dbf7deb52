"""Defragmentation of a copy of a cluster: what would be moved for a pending group, at what cost.

Start with `defrag`.
"""
