"""Explanation of refusals and of free capacity, for users: messages and numbers.

`explain.explain` is the entry point for refusals.
"""
