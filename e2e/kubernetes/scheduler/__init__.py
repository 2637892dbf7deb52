"""Muster's filters compared to kube-scheduler's: random pods on random nodes, equal results."""
