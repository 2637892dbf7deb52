"""Access of viewers: sessions, tokens, rights and rate limits."""
