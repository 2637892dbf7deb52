"""From watched bytes to rows: informers, the objects they decode, and the handlers of events."""
