"""A tiny GPT-2, trained with the Trainer of transformers; goes on from its last checkpoint where there is one.

torchrun --nproc-per-node 2 train.py OUT [--augment] [--workers]
"""

import os
import sys

import torch
from torch.utils.data import Dataset
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainerCallback, TrainingArguments, set_seed
from transformers.trainer_utils import get_last_checkpoint


class Lines(Dataset):
    def __init__(self, augment):
        self.rows = torch.randint(64, (96, 16), generator=torch.Generator().manual_seed(0))
        self.augment = augment

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, index):
        row = self.rows[index]
        if self.augment:
            draws = torch.Generator().manual_seed(self.epoch * len(self) + index)
            row = torch.where(torch.rand(len(row), generator=draws) < 0.1, 0, row)
        return {"input_ids": row, "labels": row}


class TellEpoch(TrainerCallback):
    def on_epoch_begin(self, args, state, control, train_dataloader, **kwargs):
        train_dataloader.dataset.epoch = int(state.epoch)


def main(out, *flags):
    set_seed(42)
    config = GPT2Config(vocab_size=64, n_positions=16, n_embd=32, n_layer=2, n_head=2)
    trainer = Trainer(
        model=GPT2LMHeadModel(config),
        args=TrainingArguments(
            output_dir=out,
            num_train_epochs=3,
            per_device_train_batch_size=4,
            gradient_accumulation_steps=2,
            learning_rate=1e-3,
            lr_scheduler_type="cosine",
            weight_decay=0.1,
            save_steps=2,
            dataloader_num_workers=2 if "--workers" in flags else 0,
            use_cpu=True,
            report_to="none",
        ),
        train_dataset=Lines("--augment" in flags),
        callbacks=[TellEpoch()],
    )
    trainer.train(resume_from_checkpoint=get_last_checkpoint(out) if os.path.isdir(out) else None)


if __name__ == "__main__":
    main(*sys.argv[1:])
