"""Accepted, stored and rejected objects of Dynamic Resource Allocation."""
