"""Windows: an experiment begins from a kept state of an uninterrupted run, and ends once it equals the reference."""
