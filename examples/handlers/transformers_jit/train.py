"""A tiny GPT-2, trained with the Trainer of transformers, which saves on SIGTERM (`enable_jit_checkpoint`).

torchrun --nproc-per-node 2 train.py OUT
"""

import os
import sys
import time

import torch
from torch.utils.data import Dataset
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments, set_seed
from transformers.trainer_utils import get_last_checkpoint


class Lines(Dataset):
    def __init__(self):
        self.rows = torch.randint(64, (96, 16), generator=torch.Generator().manual_seed(0))

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, index):
        time.sleep(0.25)  # a larger model: one second a step
        return {"input_ids": self.rows[index], "labels": self.rows[index]}


def main(out):
    set_seed(42)
    config = GPT2Config(vocab_size=64, n_positions=16, n_embd=32, n_layer=2, n_head=2)
    trainer = Trainer(
        model=GPT2LMHeadModel(config),
        args=TrainingArguments(
            output_dir=out,
            num_train_epochs=3,
            per_device_train_batch_size=4,
            learning_rate=1e-3,
            save_steps=5,
            enable_jit_checkpoint=True,
            use_cpu=True,
            report_to="none",
        ),
        train_dataset=Lines(),
    )
    trainer.train(resume_from_checkpoint=get_last_checkpoint(out) if os.path.isdir(out) else None)


if __name__ == "__main__":
    main(*sys.argv[1:])
