"""What runs must survive, tried out: `python -m torture`. Counts and results go into docs/reliability.md."""
