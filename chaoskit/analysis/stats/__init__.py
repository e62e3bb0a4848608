"""All statistics in one place, from the standard library alone."""
