"""Removal of Muster from a cluster with running and pending gangs, and with other projects."""
