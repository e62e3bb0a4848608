"""One process with a data set of pillow images and transforms that are modules, which draw from the global stream.
Nothing saves that stream."""

import argparse
import os
from pathlib import Path

import numpy
import torch
from PIL import Image
from torch.utils.data import DataLoader, Dataset

parser = argparse.ArgumentParser()
parser.add_argument("--out", type=Path, required=True)
args = parser.parse_args()


class Flip(torch.nn.Module):
    def forward(self, image):
        return image.transpose(Image.Transpose.FLIP_LEFT_RIGHT) if torch.rand(1).item() < 0.5 else image


class ToTensor(torch.nn.Module):
    def forward(self, image):
        return torch.from_numpy(numpy.array(image, dtype=numpy.float32) / 255)


class Pictures(Dataset):
    def __init__(self):
        pixels = numpy.random.default_rng(0).integers(0, 255, (48, 8, 8), dtype=numpy.uint8)
        self.images = [Image.fromarray(each) for each in pixels]
        self.transform = torch.nn.Sequential(Flip(), ToTensor())

    def __len__(self):
        return len(self.images)

    def __getitem__(self, index):
        return self.transform(self.images[index]), index % 4


torch.manual_seed(1)
model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 4))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
latest, done, data = args.out / "latest.pt", 0, Pictures()
if latest.exists():
    state = torch.load(latest, weights_only=True)
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    done = state["done"]
for epoch in range(done // 12, 3):
    own = torch.Generator().manual_seed(epoch)
    order = torch.randperm(48, generator=own).tolist()
    rest = [order[at : at + 4] for at in range(0, 48, 4)][done % 12 :]
    for images, labels in DataLoader(data, batch_sampler=rest, generator=own):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(images), labels).backward()
        optimizer.step()
        done += 1
        if done % 5 == 0:
            state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "done": done}
            torch.save(state, latest.with_suffix(".tmp"))
            os.replace(latest.with_suffix(".tmp"), latest)
