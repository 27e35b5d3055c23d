"""Runs on a Ray cluster: what is done at home, on a node, and what goes to and fro."""
