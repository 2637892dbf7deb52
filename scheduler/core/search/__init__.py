"""The search for nodes for the pods of a root, as in a pod group scheduling cycle.

tree                places the minimums of a tree, then the extras, with backtracking
topology_placement  candidate placements for a group's topology constraint, best first
shared_claims       candidates for ResourceClaims that several pods of a subtree share
attempt             places pods on trial, leaf by leaf
node_selection      how many pods of one shape each node takes: pack or spread
joint_packing       packs the minimums of a subtree together, if leaf by leaf failed
exhaustive_packing  backtracking over pods of different shapes on few nodes
exhaustive_search   tries all ways to place a small tree, used last
batching            decides roots with equal signatures together
search_budget       the limits of one search
search_memory       candidate placements that earlier searches for a root have completed
"""
