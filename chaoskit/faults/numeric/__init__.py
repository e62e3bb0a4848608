"""Wrong numbers in the training state, while the job runs."""
