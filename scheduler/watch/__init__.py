"""From watched bytes to the state: informers, the objects they decode, and event handlers."""
