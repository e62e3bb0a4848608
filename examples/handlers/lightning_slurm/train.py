"""A small network, trained with the Trainer of Lightning on Slurm, which saves on USR1 and asks to be requeued.

srun --ntasks-per-node 1 python train.py OUT
"""

import os
import signal
import sys
import time

import lightning as L
import torch
from lightning.pytorch.callbacks import ModelCheckpoint
from lightning.pytorch.plugins.environments import SLURMEnvironment
from torch.utils.data import DataLoader, TensorDataset


class Model(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 1))

    def training_step(self, batch, batch_idx):
        time.sleep(0.5)  # a larger model
        x, y = batch
        return torch.nn.functional.mse_loss(self.net(x), y)

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=0.01)


def main(out):
    L.seed_everything(42)
    x = torch.randn(96, 8)
    trainer = L.Trainer(
        accelerator="cpu",
        devices=int(os.environ["SLURM_NTASKS_PER_NODE"]),
        num_nodes=int(os.environ["SLURM_NNODES"]),
        strategy="ddp",
        plugins=[SLURMEnvironment(auto_requeue=True, requeue_signal=signal.SIGUSR1)],
        max_epochs=3,
        default_root_dir=out,
        callbacks=[ModelCheckpoint(dirpath=out, save_last=True, every_n_train_steps=5)],
        logger=False,
        enable_progress_bar=False,
    )
    dataset = TensorDataset(x, x.sum(1, keepdim=True))
    trainer.fit(Model(), DataLoader(dataset, batch_size=4, generator=torch.Generator()))


if __name__ == "__main__":
    main(*sys.argv[1:])
