"""Test tools: a clock under the test's control, and a port that closes completely."""
