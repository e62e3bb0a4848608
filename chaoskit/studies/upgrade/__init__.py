"""What an upgrade changed: `interpreter` is one side of it, `crossing` a checkpoint that one side saves and one
resumes, `upgrade` all of it together."""
