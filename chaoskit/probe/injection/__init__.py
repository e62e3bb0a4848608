"""Changes numbers inside a rank, on orders of the harness. Imported with the first such order."""
