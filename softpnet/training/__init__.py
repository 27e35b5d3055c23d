"""The loop, its random streams and what it writes."""
