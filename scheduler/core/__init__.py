"""The decision core. It reads no clock and does no I/O or logging. Start with decide, then place.

Each package imports only those below it.

explain/     a refusal in words and numbers
decide       decide(state, root, budget) -> Placement | Refusal: the starvation gate, then place
defragmentation/  defragment(state, root, refusal, budget, limits) -> MovePlan | NoMoves
preemption/  preempt(state, root, refusal, budget) -> Plan | Refusal
search/      place(state, root, budget) -> Placement | Refusal: candidate placements, attempts
state/       everything a decision reads, updated by events; assumed pods count as placed
framework/   runs the plugins for a shape over all nodes: filter, score, reserve
groups/      groups and their pods: links, counters, validation of trees
topology/    nodes with the same value of a label or of an attribute of their devices
devices/     claims, slices and classes of devices; the allocator
volumes/     claims, volumes and storage classes
pods/        shapes: pods with equal requirements
nodes/       the resources, labels and taints of each node as columns; trials that can be undone
values/      frozen values: nodes, pods, groups, requests; the search budget
"""
