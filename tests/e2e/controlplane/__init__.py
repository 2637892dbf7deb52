"""How the control plane is built."""
