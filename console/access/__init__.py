"""Who may look, and at what: sessions, tokens, rights, limits of requests."""
