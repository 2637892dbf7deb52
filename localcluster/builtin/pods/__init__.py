"""The rules of pods and of the claims that they use.

`pods.Pods` is the entry point.
"""
