"""The small trainer with a detector of slow ranks: it compares how long each rank takes for the same work."""

import time

import simple
import torch
import torch.distributed as dist

#: How much slower a rank may be than the fastest one.
FACTOR = 3.0
steps = 0


def work():
    """For how long a little work of this rank's own takes, in seconds."""
    begun = time.monotonic()
    x = 0
    for i in range(100_000):
        x += i
    return time.monotonic() - begun


def look(*_):
    """After a step: rank 0 says which rank is slow."""
    global steps
    steps += 1
    times = [torch.zeros(1, dtype=torch.float64) for _ in range(dist.get_world_size())]
    dist.all_gather(times, torch.tensor([work()], dtype=torch.float64))
    slowest = max(range(len(times)), key=lambda rank: times[rank].item())
    if dist.get_rank() == 0 and times[slowest] > FACTOR * min(times):
        print(f"straggler: rank {slowest} took {times[slowest].item():.3f} s at step {steps}", flush=True)


if __name__ == "__main__":
    from torch.optim.optimizer import register_optimizer_step_post_hook

    register_optimizer_step_post_hook(look)
    simple.main()
