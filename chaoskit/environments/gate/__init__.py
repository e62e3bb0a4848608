"""The channel to the ranks: the gate at which they report and wait, behind a Unix socket or a TCP port."""
