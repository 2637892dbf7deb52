"""How the control plane is built: which Go, and what is said meanwhile."""
