"""The rules of pods and of their resource claims.

`pods.Pods` is the entry point.
"""
