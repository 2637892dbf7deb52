"""Conditions, blockers and texts that users read on groups and pods.

`reporter` writes them.
"""
