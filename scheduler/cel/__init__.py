"""Expressions of device selectors: parse, check and evaluate.

`selectors` is the entry point.
"""
