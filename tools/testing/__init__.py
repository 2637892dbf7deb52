"""Helpers of test runs: effort, cost, and the end of leftover processes."""
