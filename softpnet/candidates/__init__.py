"""Where an example's K candidates come from."""
