"""End-to-end tests, and the real control plane they run on."""
