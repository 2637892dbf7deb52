"""Leader election by a Lease.

`election.LeaderElector` is the entry point.
"""
