"""Nodes as columns: resources, labels, what pods there exclude.

`NodeTable` is the entry point.
"""
