"""Defragmentation: gangs that run are moved, so that a root that waits fits.

movable    the gangs that may be moved, as the units of preemption that belong to them
returns    the dry run of the return: the moved gangs are decided again, as pods that wait
plan       defragment(state, root, refusal, ...) -> MovePlan | NoMoves
"""
