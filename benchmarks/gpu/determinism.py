"""What two uninterrupted runs say where a setting that makes them equal is switched off.

    python benchmarks/gpu/determinism.py --workers 3
"""

from __future__ import annotations

import argparse
from concurrent.futures import ThreadPoolExecutor

from kinds import examined, line

LOOSE = ("nothing", "algorithms", "workspace", "benchmark", "tf32", "all")
#: The settings that are worth showing.
SHOWN = (
    "deterministic algorithms", "cudnn benchmark", "cudnn deterministic", "float32 matmul precision", "cudnn tf32",
    "CUBLAS_WORKSPACE_CONFIG", "torch", "cuda", "cudnn", "nccl", "device",
)  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--only", default=",".join(LOOSE))
    parser.add_argument("--workers", type=int, default=1)
    told = parser.parse_args()

    def examine(loose: str) -> None:
        found = examined(["--loose", loose, "--device", told.device], "test_control")
        shown = {name: found["settings"].get(name) for name in SHOWN}
        print(f"{line(f'without {loose}', found)}\n    recorded: {shown}", flush=True)

    with ThreadPoolExecutor(told.workers) as pool:
        list(pool.map(examine, told.only.split(",")))


if __name__ == "__main__":
    main()
