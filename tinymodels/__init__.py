"""A small fault-tolerant training program, to be read over coffee: begin with train.py."""
