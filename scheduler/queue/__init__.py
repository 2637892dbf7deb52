"""The order of roots: which is decided next, and when a refused one is decided again.

`scheduling_queue.Queue` is the entry point.
"""
