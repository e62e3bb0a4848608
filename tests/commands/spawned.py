"""`python spawned.py OUT`: torch.multiprocessing starts both ranks; this process is none."""

import sys

import torch.multiprocessing as mp
from loop import free_port, train


def rank(number, port, words):
    train(*words, init_method=f"tcp://127.0.0.1:{port}", rank=number, world_size=2)


if __name__ == "__main__":
    mp.spawn(rank, args=(free_port(), sys.argv[1:]), nprocs=2)
