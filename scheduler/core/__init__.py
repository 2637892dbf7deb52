"""The decision core: pure, no clock, no I/O, no log. Begin with `decide`, then `place`.

model              the values it works on: nodes, pods, groups, volumes
state              all of it together, kept by events; what was decided counts as taken
node_table         per node what is free, as int64 arrays; trials that undo themselves
node_classes       nodes that no shape can tell apart
topology           domains: nodes that share a label's value
label_expressions  requirements on label values
pod_selectors      which pods the terms of others select; pod_label_index finds them
match_counts       how many of those are on each node
volume_table       claims, volumes, classes; assumed_volumes: what a claim is to get
shapes             pods with equal requirements; shape_registry keeps them
framework          runs the plug-ins for a shape over all nodes: filter, score, reserve
plugins/           one file for each plug-in of kube-scheduler
domain_quotas      how many equal pods may be placed at once
forest             groups, parents, counters: who has its quorum, who has its minimum
tree_validation    trees that must not be tried at all
decide             decide(state, root, budget) -> Placement | Refusal: the gate, then place
starvation         the gate that a starving root may close
place              place(state, root, budget) -> Placement | Refusal
search/            places for a tree: topology placements, attempts, nodes, packing, batches
nominations        places kept for roots whose victims are on their way out
preemption/        preempt(state, root, refusal, budget) -> Plan | Refusal
shortage           what was short, where
explain            the refusal in numbers; reasons counts the nodes, advice is the sentence
domain_capacity    the same domain by domain, with what preemption could free
"""
