"""Tools of the people who develop Muster; no part of what is installed."""
