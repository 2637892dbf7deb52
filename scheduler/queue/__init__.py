"""Which root is decided next, and when a refused root is decided again.

`SchedulingQueue` is the entry point.
"""
