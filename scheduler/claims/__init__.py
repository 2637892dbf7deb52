"""Write to ResourceClaims: allocations, finalizers, releases.

`AllocationWriter` is the entry point.
"""
