"""What a user writes: a concept space, a rule, data, settings."""
