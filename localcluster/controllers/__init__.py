"""The controllers of the embedded cluster, and its kubelets."""
