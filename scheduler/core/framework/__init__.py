"""Plug-ins that filter and score nodes, and the quotas that they keep.

`Framework` is the entry point.
"""
