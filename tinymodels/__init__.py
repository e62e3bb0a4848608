"""A small fault-tolerant training program. README.md is the guided walk; train.py shows the whole training."""
