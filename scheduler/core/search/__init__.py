"""The search for nodes for the pods of a root, as in a pod group scheduling cycle.

tree                places the minimums of a tree, then the extras, with backtracking
needs               which pods a group needs, and the order to try its children
topology_placement  candidate placements for a group's topology constraint, best first
shared_claims       candidates for ResourceClaims that several pods of a subtree share
attempt             places pods on trial, leaf by leaf
node_selection      how many pods of one shape each node takes: pack or spread
joint_packing       packs the minimums of a subtree together, if leaf by leaf failed
exhaustive_packing  backtracking over pods of different shapes on few nodes
exhaustive_search   tries all ways to place a small tree, used last
batching            decides roots with equal signatures together
spread_batching     places many equal pods with topology spread constraints at once
reasons             counts the nodes for each reason against a shape

The limits of a search are in `values.search_budget`, what it remembers in `state.search_memory`.
"""
