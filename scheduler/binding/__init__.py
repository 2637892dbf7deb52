"""Decisions written to the cluster: Reservations, claims and volumes, Bindings.

`Binder` is the entry point.
"""
