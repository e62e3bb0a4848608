"""A small network, trained with the Trainer of Lightning; goes on from its last checkpoint where there is one.

python train.py OUT [--augment] [--workers]
"""

import sys

import lightning as L
import torch
from lightning.pytorch.callbacks import ModelCheckpoint
from torch.utils.data import DataLoader, Dataset, DistributedSampler


class Numbers(Dataset):
    def __init__(self, augment):
        self.x = torch.randn(96, 8, generator=torch.Generator().manual_seed(0))
        self.augment = augment

    def __len__(self):
        return len(self.x)

    def __getitem__(self, place):
        _, index = place
        x, y = self.x[index], self.x[index].sum(0, keepdim=True)
        if self.augment:
            x = x + 0.1 * torch.randn(len(x), generator=torch.Generator().manual_seed(hash(place)))
        return x, y


class Places(DistributedSampler):
    def __iter__(self):
        places = [(self.epoch, index) for index in super().__iter__()]
        first, self.first = self.first, 0
        return iter(places[first:])


class Data(L.LightningDataModule):
    def __init__(self, augment, workers):
        super().__init__()
        self.dataset = Numbers(augment)
        self.workers = workers

    def train_dataloader(self):
        sampler = Places(self.dataset)
        epoch, sampler.first = divmod(4 * (self.trainer.fit_loop.total_batch_idx + 1), len(sampler))
        sampler.set_epoch(epoch)
        return DataLoader(self.dataset, batch_size=4, sampler=sampler, num_workers=self.workers)


class Model(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = torch.nn.Sequential(
            torch.nn.Linear(8, 16), torch.nn.BatchNorm1d(16), torch.nn.Dropout(0.3), torch.nn.Linear(16, 1)
        )

    def on_train_start(self):
        loop = self.trainer.fit_loop
        if loop.epoch_progress.current.ready == loop.epoch_progress.current.processed:
            loop.reset_restart_stage()
        self.trainer.checkpoint_callback._last_global_step_saved = self.trainer.global_step

    def training_step(self, batch, batch_idx):
        torch.manual_seed(hash((self.trainer.fit_loop.total_batch_idx, self.global_rank)))
        x, y = batch
        loss = torch.nn.functional.mse_loss(self.net(x), y)
        self.log("loss", loss)
        return loss

    def configure_optimizers(self):
        optimizer = torch.optim.AdamW(self.parameters(), lr=0.01)
        scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=18)
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": scheduler, "interval": "step"}}


def main(out, *flags):
    L.seed_everything(42, workers=True)
    trainer = L.Trainer(
        accelerator="cpu",
        devices=2,
        strategy="ddp",
        max_epochs=3,
        accumulate_grad_batches=2,
        callbacks=[ModelCheckpoint(dirpath=out, save_last=True, every_n_train_steps=2)],
        logger=False,
        enable_progress_bar=False,
    )
    trainer.fit(Model(), Data("--augment" in flags, 2 if "--workers" in flags else 0), ckpt_path="last")


if __name__ == "__main__":
    main(*sys.argv[1:])
