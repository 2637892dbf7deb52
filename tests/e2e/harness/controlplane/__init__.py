"""The build of the control plane: its Go, and its progress."""
