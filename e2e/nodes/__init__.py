"""Muster on real kubelets."""
