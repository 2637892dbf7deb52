"""End-to-end tests, and the real control plane that they run on."""
