"""What each view answers, from the scheduler's state: pure functions of it, but for what they keep.

layout      domains within domains, from the topology keys in use
cluster_map the cluster map: amounts, changes of them, and the largest gang of a shape
refusals    why something waits, in the scheduler's words
queue       what waits, in the scheduler's order
workload    one workload: its tree, pods and conditions; search
timeline    what happened to a workload
why_not     why no pod of a workload fits on a node
"""
