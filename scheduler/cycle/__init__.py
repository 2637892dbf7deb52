"""The scheduling cycle: decides one root after the other.

`Cycle` decides; `loop` is the task that drives it.
"""
