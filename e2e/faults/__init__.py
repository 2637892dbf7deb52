"""Fault injection, hostile tenants and other schedulers, and the invariants that Muster keeps."""
