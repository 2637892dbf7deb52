"""Writes to ResourceClaims: allocations, finalizers, releases.

`allocation_writer.Allocations` is the entry point.
"""
