"""The command line: commands, shared options, output, the battery of experiments, and the pytest plugin."""
