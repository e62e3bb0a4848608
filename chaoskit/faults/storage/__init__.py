"""Storage under `{out}` that fails or is slow while the job uses it."""
