"""A file system of chaoskit's own over the job's `{out}`: it keeps a journal and can be made to fail."""
