"""Reads and writes of objects, with the rules and the order that kube-apiserver keeps.

`api.Api` is the entry point.
"""
