"""The forest of groups and pods: links, counts, minimums.

`Forest` is the entry point.
"""
