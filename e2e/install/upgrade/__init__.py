"""Upgrades and ways back: released versions beside the checkout's, on the real control plane."""
