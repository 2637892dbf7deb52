"""Messages, protocols and times for all parts of the console."""
