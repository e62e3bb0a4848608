"""A tiny Llama 3, trained by torchtitan.train; it goes on from the last checkpoint in OUT where there is one.

torchrun --nproc-per-node 2 train.py OUT [--augment] [--workers]
"""

import sys
from dataclasses import dataclass
from pathlib import Path

import cpu  # noqa: F401  torchtitan runs on accelerators only: this shows it the CPU as one
import torch
import torchtitan.train
from datasets import Dataset
from torchtitan.components.tokenizer import BaseTokenizer
from torchtitan.hf_datasets import DatasetConfig
from torchtitan.hf_datasets.text_datasets import DATASETS
from torchtitan.models.common.attention import ScaledDotProductAttention
from torchtitan.models.llama3.config_registry import llama3_debugmodel


class Letters(BaseTokenizer):
    @dataclass(kw_only=True, slots=True)
    class Config(BaseTokenizer.Config):
        pass

    def __init__(self, config, tokenizer_path):
        super().__init__()

    def encode(self, text, add_bos, add_eos):
        return list(text.encode())

    def decode(self, tokens):
        return bytes(tokens).decode()

    def get_vocab_size(self):
        return 256


def lines(path):
    letters = torch.randint(97, 123, (96, 33), generator=torch.Generator().manual_seed(0), dtype=torch.uint8)
    return Dataset.from_dict({"text": [bytes(row.tolist()).decode() for row in letters]})


def plain(sample):
    return sample["text"]


def augmented(sample):
    return "".join(" " if torch.rand(()) < 0.1 else letter for letter in sample["text"])


DATASETS["lines"] = DatasetConfig(path="", loader=lines, sample_processor=plain)
DATASETS["augmented"] = DatasetConfig(path="", loader=lines, sample_processor=augmented)


def tiny():
    config = llama3_debugmodel()
    config.model_spec.model.layers = config.model_spec.model.layers[:1]
    for layer in config.model_spec.model.layers:
        layer.attention.inner_attention = ScaledDotProductAttention.Config()
    config.tokenizer = Letters.Config()
    config.training.local_batch_size = 4
    config.training.global_batch_size = 16
    config.training.seq_len = 32
    config.training.steps = 18
    config.checkpoint.enable = True
    config.checkpoint.interval = 2
    config.debug.seed = 42
    config.parallelism.data_parallel_replicate_degree = 2
    return config


if __name__ == "__main__":
    out, *flags = sys.argv[1:]
    data = "augmented" if "--augment" in flags else "lines"
    workers = "2" if "--workers" in flags else "0"
    sys.argv[1:] = ["--module", Path(__file__).stem, "--config", "tiny", "--dump_folder", out]
    sys.argv += ["--dataloader.dataset", data, "--dataloader.num_workers", workers]
    torchtitan.train.main()
