"""What a rank computes with: the versions of its libraries, and the flags on which the bits of a result may hang."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import Any

#: Environment variables that say how is computed or communicated, and not where or for whom.
PREFIXES = (
    "CUBLAS_", "CUDA_", "CUDNN_", "FI_", "GLOO_", "MKL_", "NCCL_", "NVIDIA_TF32", "OMP_", "OPENBLAS_", "PYTORCH_",
    "TORCH_",
)  # fmt: skip
#: Those that are other ones in each launch, or that only we set.
OWN = ("TORCHELASTIC_", "TORCH_NCCL_ASYNC_ERROR_HANDLING")

#: Libraries whose versions count where the job has imported them.
LIBRARIES = ("numpy", "transformers", "accelerate", "lightning", "deepspeed", "torchdata", "safetensors")


def apart(old: Mapping[str, str], new: Mapping[str, str]) -> tuple[str, ...]:
    """The names of the settings that differ. A library that only one of the two had imported is none of them: the
    parent of a warm launch may have imported it for another job."""
    names = (name for name in dict.fromkeys((*old, *new)) if old.get(name) != new.get(name))
    return tuple(name for name in names if name not in LIBRARIES or (name in old and name in new))


def settings(torch: Any) -> dict[str, str]:
    """By name, as text: what differs between two machines or versions is worth a line to whoever compares them."""
    told = {"python": sys.version.split()[0], "torch": str(torch.__version__)}
    told.update(_libraries(torch))
    told.update(_flags(torch))
    told.update({name: value for name, value in os.environ.items() if name.startswith(PREFIXES) and _common(name)})
    return told


def _common(name: str) -> bool:
    return not name.startswith(OWN)


def _libraries(torch: Any) -> dict[str, str]:
    """What is there besides torch; of what the job has not imported, nothing."""
    told = {}
    for name in LIBRARIES:
        version = getattr(sys.modules.get(name), "__version__", None)
        if version is not None:
            told[name] = str(version)
    # Only of devices that the job uses: to ask for their names would begin to use them.
    if torch.version.cuda and torch.cuda.is_initialized():
        told["cuda"] = str(torch.version.cuda)
        told["cudnn"] = str(torch.backends.cudnn.version())
        told["nccl"] = ".".join(map(str, torch.cuda.nccl.version()))
        told["device"] = str(torch.cuda.get_device_name())
    return told


def _flags(torch: Any) -> dict[str, str]:
    flags = {
        "threads": torch.get_num_threads(),
        "deterministic algorithms": torch.are_deterministic_algorithms_enabled(),
        "float32 matmul precision": torch.get_float32_matmul_precision(),
        "cudnn benchmark": torch.backends.cudnn.benchmark,
        "cudnn deterministic": torch.backends.cudnn.deterministic,
        "cpu capability": torch.backends.cpu.get_cpu_capability(),
    }
    if torch.cuda.is_initialized():
        flags["cudnn tf32"] = torch.backends.cudnn.allow_tf32
    return {name: str(value) for name, value in flags.items()}
