"""Trees of groups as text."""
