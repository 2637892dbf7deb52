"""From the bytes of a watch to values, within limits.

`decode` is the entry point.
"""
