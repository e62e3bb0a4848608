"""Nothing goes wrong, for comparison."""
