"""What a rule can answer."""
