"""Expected pods: pods that do not exist yet, as values.

`pods.ExpectedPods` is the entry point.
"""
