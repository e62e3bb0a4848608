#!/usr/bin/env bash
# All checks on a GPU, one after another where they measure, side by side where they judge:
#     benchmarks/gpu/checks.sh DIRECTORY [PART...]
# What they say goes to DIRECTORY/report.txt, whatever else they write to DIRECTORY/logs. A check that fails does not stop
# the others. Parts: measure battery gallery kinds numbers launches. DEVICE=cpu shows that it runs.
set -u
cd "$(dirname "$0")/../.."
out=$1; shift
parts=" ${*:-measure battery gallery kinds numbers launches} "
device=${DEVICE:-cuda} python=${PYTHON:-python3}
mkdir -p "$out/logs"
report=$out/report.txt
export OMP_NUM_THREADS=1 PYTHONUNBUFFERED=1

wanted() { [[ $parts == *" $1 "* ]]; }

# check SECONDS NAME COMMAND...: one section of the report, written at once when the command ends.
check() {
    local limit=$1 name=$2 begun=$SECONDS status=0; shift 2
    timeout -k 10 "$limit" "$@" >"$out/logs/$name.txt" 2>&1 || status=$?
    { flock 9; { printf '\n== %s (exit code %s, %s s): %s\n' "$name" "$status" $((SECONDS - begun)) "$*"
      tail -c 6000 "$out/logs/$name.txt"; } >>"$report"; } 9>"$out/logs/.lock"
}

# run NAME SECONDS RANKS MODULE EXPERIMENTS ARGUMENTS...: chaoskit run on a trainer of tinymodels.
run() {
    local name=$1 limit=$2 ranks=$3 module=$4 experiments=$5; shift 5
    check "$limit" "$name" "$python" -m chaoskit run -n 1 --no-proof -v -k "$experiments" --dir "$out/logs/$name.store" \
        --json "$out/logs/$name.json" -- "$python" -m torch.distributed.run --nproc-per-node "$ranks" -m "$module" \
        --out '{out}' --device "$device" "$@"
}

{ date; uname -a; "$python" -V; nvidia-smi; "$python" -c 'import torch; print(torch.__version__, torch.version.cuda)'; } \
    >>"$report" 2>&1

if wanted measure; then
    if [ "$device" = cuda ]; then
        check 60 throughput "$python" benchmarks/gpu/throughput.py --json "$out/logs/throughput.json"
        check 120 overhead "$python" benchmarks/gpu/overhead.py --rounds 8 --json "$out/logs/overhead.json"
    else
        check 60 throughput "$python" benchmarks/gpu/throughput.py --device cpu --mib 4 --rounds 1
        check 90 overhead "$python" benchmarks/gpu/overhead.py --device cpu --layers 1 --width 64 --tokens 128 --rounds 1
    fi
fi

few="control or one_rank_mid_epoch or twice or middle_of_save"
if wanted battery; then
    (
        run nccl-one-rank 150 1 tinymodels.train "$few"
        run nccl-fsdp 90 1 tinymodels.train "one_rank_mid_epoch" --parallel fsdp --bf16
    ) &
    (
        run gloo-two-ranks 200 2 tinymodels.train "$few"
        run gloo-amp 90 2 tinymodels.train "one_rank_mid_epoch" --amp
    ) &
fi
if wanted gallery; then
    (
        run rng-missing 90 2 tinymodels.gallery.rng_missing one_rank_mid_epoch
        run rng-rank0-for-all 90 2 tinymodels.gallery.rng_rank0_for_all one_rank_mid_epoch
        run optim-not-saved 90 2 tinymodels.gallery.optim_not_saved one_rank_mid_epoch
    ) &
    (
        run data-restart-zero 90 2 tinymodels.gallery.data_restart_zero one_rank_mid_epoch
        run partial-dir-latest 90 2 tinymodels.gallery.partial_dir_latest middle_of_save
        run scaler-missing 90 2 tinymodels.gallery.scaler_missing one_rank_mid_epoch --amp
    ) &
fi
if wanted kinds; then
    (
        check 240 kinds "$python" benchmarks/gpu/kinds.py --device "$device" --workers 4 ${KINDS:+--only $KINDS}
    ) &
    check 120 determinism "$python" benchmarks/gpu/determinism.py --device "$device" --workers 2 ${LOOSE:+--only $LOOSE} &
fi
if wanted numbers; then
    (
        run numbers 150 2 tinymodels.train "(test_nan and not inf) or (test_bitflip and exponent)"
        check 100 sdc-map "$python" benchmarks/sdc_map.py --seconds 45 --most 60 --workers 1 --compare 2 -- --device "$device"
    ) &
fi
if wanted launches; then
    (
        [ "$device" = cuda ] && check 60 killed-memory "$python" benchmarks/gpu/killed_memory.py
        site=$("$python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
        for opens in opens_nothing opens_cuda; do  # installed packages: the warm parent imports no others
            mkdir -p "$site/$opens"
            echo 'import torch' >"$site/$opens/__init__.py"
            [ "$opens" = opens_nothing ] || echo 'torch.zeros(1, device="cuda")' >>"$site/$opens/__init__.py"
            check 80 "launch-$opens" "$python" -m chaoskit run -n 1 -v -k test_control --dir "$out/logs/$opens.store" -- \
                "$python" -m torch.distributed.run --nproc-per-node 1 benchmarks/gpu/trainer.py --out '{out}' \
                --device "$device" --opens "$opens"
            rm -r "${site:?}/$opens"
        done
    ) &
fi
wait
date >>"$report"
