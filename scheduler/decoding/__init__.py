"""Decoding of watched objects to values of the decision core, within limits.

`decode` is the entry point.
"""
