"""How a job's command is started and kept: `launcher` is the interface, `cold` starts fresh processes, `warm` forks
them."""
