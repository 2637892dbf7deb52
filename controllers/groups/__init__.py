"""Creation and correction of Workloads, CompositePodGroups and PodGroups, root before leaf.

`GroupWriter` is the entry point.
"""
