"""Muster as its users run it: in containers, on kubelets."""
