"""The search for places.

tree                the minimums of a tree, then extras, with a way back
topology_placement  candidate placements for a group's topology constraint, best first
attempt             places taken on trial, leaf by leaf
node_selection      which nodes take how many pods of one shape: pack or spread
joint_packing       the minimums of a subtree at once, where leaf by leaf did not do
exhaustive_packing  the last resort for unequal pods on few nodes
batching            roots that ask for the same, decided in one go
search_budget       how hard one decision may search
"""
