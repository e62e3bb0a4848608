"""Files and directories that belong to chaoskit: how they are removed, kept small, and kept from other users."""
