"""Device claims (Dynamic Resource Allocation): the devices of each node and who uses them.

Entry point: `table.DeviceTable`. The frozen values (devices, slices, classes, claims) are in
`scheduler/core/values`. The other modules, in reading order:

taint_rules         DeviceTaintRules of administrators, added to the slices
slices              ResourceSlices by pool and by node
pools               pools of devices that a node sees, in upstream's order
capacities          amounts that a request consumes of a shared device
allowance           limit of the work on devices in one decision
contents            devices without their names, as numbers and columns
kinds               devices that no selector in question distinguishes
sortings            layout of each node for a set of selectors; built in steps
layouts             devices of a node by position; usage: the ones in use
requests            asks whose device classes are resolved
counters            shared counters of a pool that devices in use leave free
matching            devices that an option of a request can take
allocator           allocate(layout, usage, pods, steps) -> Solution | Refused
states              device use of a node as a number, and the steps between states
results             a solution as the allocations of claims
viewers             nodes that see the same devices
node_devices        devices that each node sees, refreshed in steps
node_attributes     attribute values of each node's devices, as columns
use                 claims that hold devices
claim_consumers     pods that may use each claim
sole_use            devices that a pod's eviction releases, as columns
excess              devices that several claims hold beyond their capacity
extended_resources  device classes that provide extended resources
"""
