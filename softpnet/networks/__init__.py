"""From input to embedding to log p."""
