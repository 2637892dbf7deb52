"""The views of the scheduler's state: pure functions of it, apart from their caches.

layout      domains within domains, from the topology keys in use
cluster_map the cluster map: amounts, their changes, and the largest gang of a shape
refusals    why a root waits, in the scheduler's words
queue       waiting roots, in the scheduler's order
workload    one workload: its tree, pods and conditions; search
timeline    events of a workload
why_not     why no pod of a workload fits a node
"""
