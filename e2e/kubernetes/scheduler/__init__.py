"""Muster's filters beside kube-scheduler's: random pods on random nodes, the same feasible sets."""
