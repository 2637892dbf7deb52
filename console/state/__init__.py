"""A cluster as the scheduler's watches show it, and the past of its workloads.

Entry point: `LiveCluster`.
"""
