"""Device claims (Dynamic Resource Allocation): which devices a node can give to which pods.

asks         what claims ask for, as values
extended     containers' extended resources as requests of a claim
model        devices, slices, classes, claims and allocations, as values
taint_rules  taints of administrators (DeviceTaintRules), put into the slices
pools        the pools of devices that a node sees, in their order
capacities   what a request takes of a device that several claims may share
allowance    how much work one decision may spend on devices
contents     devices by what they are, as numbers and columns
kinds        devices that no selector in question tells apart
sortings     the layout of each node, by the answers of selectors; made in steps
layouts      the devices of a node by position; usage: which of them are in use
requests     what asks mean once their classes are known
matching     which devices an option of a request can take
allocator    allocate(layout, usage, pods, steps) -> Solution | Refused
states       what is in use on a node, as a number, and the steps from state to state
results      a solution as the allocations of claims
"""
