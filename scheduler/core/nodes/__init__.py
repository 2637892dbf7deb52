"""Nodes as columns: resources, labels, and the ports and disks that pods use exclusively.

`NodeTable` is the entry point.
"""
