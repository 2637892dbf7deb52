"""Who leads, by a Lease.

`LeaderElector` is the entry point.
"""
