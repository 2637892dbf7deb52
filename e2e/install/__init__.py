"""How Muster is installed, operated, upgraded and removed."""
