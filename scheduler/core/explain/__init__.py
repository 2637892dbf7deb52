"""A refusal in words and numbers.

`explain.explain` is the entry point.
"""
