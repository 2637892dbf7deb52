"""Messages, protocols and times that all parts use."""
