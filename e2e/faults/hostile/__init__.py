"""Hostile tenants, faults and other schedulers, and the invariants that hold despite them."""
