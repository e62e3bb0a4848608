#!/bin/sh
# One task as srun starts it, where there is no Slurm: its number and those of the others, from torchrun.
# torchrun --no-python --nproc-per-node 2 task.sh OUT
export SLURM_JOB_ID=1 SLURM_JOB_NAME=train SLURM_NNODES="$GROUP_WORLD_SIZE" SLURM_NTASKS="$WORLD_SIZE"
export SLURM_NTASKS_PER_NODE="$LOCAL_WORLD_SIZE" SLURM_PROCID="$RANK" SLURM_LOCALID="$LOCAL_RANK"
export SLURM_NODEID="$GROUP_RANK"
exec python "$(dirname "$0")/train.py" "$@"
