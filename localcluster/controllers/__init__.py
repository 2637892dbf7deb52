"""The controllers and kubelets of the embedded cluster."""
