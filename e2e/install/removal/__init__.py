"""Muster is taken out of a cluster, with gangs that run and wait, and neighbours beside it."""
