"""Shows torchtitan, which runs on accelerators only, the CPU as one; where else it would ask for torch.cuda."""

from types import SimpleNamespace

import torch
from torchtitan.components import metrics
from torchtitan.distributed import parallel_dims
from torchtitan.distributed import utils as distributed
from torchtitan.tools import utils

CPU = SimpleNamespace(
    current_device=lambda: 0,
    device_count=lambda: 1,
    empty_cache=lambda: None,
    get_device_name=lambda device: "CPU",
    get_device_properties=lambda device: SimpleNamespace(total_memory=1 << 30),
    memory_stats=lambda device: {},
    reset_peak_memory_stats=lambda: None,
    set_device=lambda device: None,
    synchronize=torch.cpu.synchronize,
)

for module in (utils, metrics, parallel_dims, distributed):
    module.device_type, module.device_module = "cpu", CPU
