"""Upgrades and downgrades: released versions and the checkout, on the real control plane."""
