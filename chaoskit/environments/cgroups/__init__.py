"""Control groups: limit the memory, the processors and the disk of a rank or a node, and count what the limits did."""
