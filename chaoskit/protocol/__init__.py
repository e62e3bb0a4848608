"""What the harness and the ranks both speak: events, fingerprints, targets, the I/O journal."""
