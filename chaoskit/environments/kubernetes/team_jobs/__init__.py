"""The kinds of job that a team may have: where the parts of each are, and what its controller says. One file a kind."""
