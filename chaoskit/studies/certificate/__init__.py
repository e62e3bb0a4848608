"""The readiness checklist of a job, each row ticked by stored runs, and what it takes for a certificate to hold."""
