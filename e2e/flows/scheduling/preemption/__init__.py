"""Preemption by groups, on any cluster."""
