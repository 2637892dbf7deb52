"""Reads and writes of objects, with the rules and the order of kube-apiserver.

`api.Api` is the entry point.
"""
