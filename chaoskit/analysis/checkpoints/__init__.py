"""Checkpoints: what each save wrote, what became of it, and which one a resume may take."""
