"""Make Workloads, CompositePodGroups and PodGroups, root before leaf, and correct them.

`GroupWriter` is the entry point.
"""
