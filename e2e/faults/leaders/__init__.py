"""Failures of the leading scheduler at any step of its work, and the invariants afterwards."""
