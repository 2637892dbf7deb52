"""Conformance tests of the Kubernetes API, run on the embedded and on the real server.

If the two differ, kube-apiserver is right.
"""
