"""Numbers made wrong inside a rank, on order of the harness. It is imported with the first such order."""
