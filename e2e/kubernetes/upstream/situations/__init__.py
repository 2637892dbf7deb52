"""Situations of Kubernetes' integration tests for pod groups, played on a complete cluster.

`test_situations.py` plays the tables of this package with kube-scheduler and with Muster.
"""
