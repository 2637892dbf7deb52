"""The console's page in a real Chromium."""
