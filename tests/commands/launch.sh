#!/bin/sh
# The launcher script of a team: sets what they always set, and becomes torchrun.
export OMP_NUM_THREADS=1
exec torchrun --nproc-per-node 2 "$@"
