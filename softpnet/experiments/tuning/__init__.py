"""Tuning: a search for settings on one task, judged on held-out training examples. `softpnet search` is its door."""
