"""The decision core: pure, no clock, no I/O, no log. Start with `placement.place`.

values      what it is told: nodes, pods, groups, as frozen values
state       all of it together, kept by events; what was decided counts as taken
columns     per node what is free, as int64 arrays; trials that undo themselves
classes     nodes that no shape can tell apart
ports       host ports as resources
relations   which pods the hard terms about other pods speak of; bearers finds them
tallies     how many of those are on each node
company     where a shape may go for the pods that are already there
leanings    where it likes to go for them
bounds      how many of it go where at once, before they mind each other
storage     where a shape may go for its volumes; reach says where a volume may be used
promises    which volume a claim is to get that waits for its first consumer, out of volumes
shapes      pods with equal requirements, and how many of them each node has room for
filters     may this pod run on such a node, room aside
forest      groups, parents, counters: who has its quorum, who stands
layout      trees that must not be tried at all
topology    domains: nodes that share a label's value
regions     where a group's topology lets its pods go, best choice first
fit         which nodes take how many pods of one shape: pack or spread
taking      places taken on trial, leaf by leaf
search      the search over a tree, with a way back
together    the floors of a subtree at once, where leaf by leaf did not do
exhaust     the last resort for unequal pods on few nodes
placement   place(state, root, budget) -> Placement | Refusal
alike       roots that ask for the same, decided in one go
shortage    what was short, where
explain     the refusal in numbers, for people; reasons counts the nodes, advice is the sentence
domains     the same domain by domain, with what preemption could free
units       what can only be evicted as a whole, as a table of pods
budgets     disruption budgets; protected tells which units they cover
holds       places kept for roots whose victims are on their way out
door        who has waited how long, and whom others wait for; starving says who may pass
room        does the root fit without these units? asked of the one solver
wheres      parts of the cluster in the order of what making room there costs
preemption  preempt(state, root, refusal, budget) -> Plan | Refusal
"""
