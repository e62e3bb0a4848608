#!/bin/sh
# One node of the job: the daemon beside the trainer. sh job.sh TRAINER OUT FLAG SECONDS
python "$(dirname "$0")/watch_spot.py" "$3" "$4" &
daemon=$!
torchrun --nproc-per-node 1 "$1" "$2" "$3"
code=$?
kill "$daemon"
exit "$code"
