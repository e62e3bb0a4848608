"""The channel between chaoskit and its nodes by files on a volume that both have, where neither may connect to the
other."""
