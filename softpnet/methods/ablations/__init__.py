"""The ablations of the paper."""
