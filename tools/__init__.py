"""Tools for the development of Muster; none is part of what is installed."""
