"""From log p and labels to the soft target."""
