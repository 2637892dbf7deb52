"""The decision core. It reads no clock and does no I/O or logging. Start with decide, then place.

model              frozen values: nodes, pods, groups, volumes
state              everything a decision reads, updated by events; assumed pods count as placed
node_table         the free resources of each node, as int64 arrays; trials that can be undone
resource_table     what nodes offer and have free of each resource, without overflow
exclusive_uses     which host ports and disks are in use on which nodes
node_labels        label expressions, evaluated on all nodes at once
node_classes       nodes with equal taints
node_attributes    what the devices of a node agree on, for topology domains
topology           topology domains: nodes that share the value of a label or of an attribute
label_expressions  requirements on label values
pod_selectors      which pods the terms of other pods select; pod_label_index finds them
match_counts       how many of the selected pods are on each node
devices/           device claims (DRA): what the devices of a node can be given to
device_table       slices, device classes and claims, and what is in use of each node's devices
extended_resources which device class stands for which extended resource
device_use         which claims hold which devices; claim_consumers knows the pods that use claims
device_demand      what pods of a shape ask of the devices of each node, as claims are now
equal_devices      nodes with equal devices in equal use, as far as a demand tells them apart
claim_quotas       how many pods more can use a claim
device_excess      what an allocation takes that others have already
devices_used       how many devices of each class pods use
volume_table       claims, volumes and classes; assumed_volumes holds what claims will be bound to
shapes             pods with equal requirements; shape_registry interns them
never_fits         shapes that no node takes, whatever runs there
framework          runs the plug-ins for a shape over all nodes: filter, score, reserve
plugins/           one file per kube-scheduler plug-in
domain_quotas      how many equal pods may be placed at once
groups             pods and groups with their counters, which group_counters keeps right
group_links        links groups to their parents, as deep as a tree may be
workload_templates whether groups are like the templates of their Workload
forest             all groups, and whether a tree may be tried
tree_validation    trees that must not be tried
decide             decide(state, root, budget) -> Placement | Refusal: the gate, then place
starvation         the gate that can be closed for a starving root
profiles           how the pods of one schedulerName are placed: pack or spread
place              place(state, root, budget) -> Placement | Refusal
search/            finds nodes for a tree: topology placements, attempts, packing, batches
nominations        places reserved for roots whose victims are still terminating
preemption/        preempt(state, root, refusal, budget) -> Plan | Refusal
shortage           what a root lacks, and at which group
explain            a refusal in numbers; reasons counts the nodes, advice writes the sentence, and
                   device_advice what it says of devices
domain_capacity    free and reclaimable capacity, domain by domain
"""
