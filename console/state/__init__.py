"""A cluster by the scheduler's watches, and what became of its workloads.

`LiveCluster` is the entry point.
"""
