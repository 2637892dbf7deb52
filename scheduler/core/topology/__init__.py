"""Topology domains: sets of nodes by the value of a topology key.

Entry point: `topology.Topologies`.
"""
