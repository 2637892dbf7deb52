"""Domains of nodes by a topology key."""
