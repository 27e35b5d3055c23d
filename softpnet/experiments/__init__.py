"""Runs, judged and drawn."""
