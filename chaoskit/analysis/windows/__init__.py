"""Windows of a run: when a job equals its reference again, and what follows for the steps that nobody watched."""
