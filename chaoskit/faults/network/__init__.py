"""Links between nodes that are cut, slow or noisy."""
