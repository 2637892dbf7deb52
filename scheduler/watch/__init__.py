"""Informers and event handlers: from watched objects to the state."""
