"""A trainer of one process, in which something is not a number. Only `nan` and `nan-late` are broken.

`nan`: the first loss is 0/0, so that parameters and losses are NaN to the end. `nan-late`: the same from step 7 on.
`mask`: an attention mask of -inf, as a buffer and as a frozen parameter. `scaler`: gradients overflow in the first
steps, and a scaler leaves these steps out. `guard`: the loss of one bad batch is NaN, and its gradients are dropped.
`head`: an auxiliary head has no target; its own loss is an empty mean, NaN, and its gradients are dropped.
"""

import argparse
import os
from pathlib import Path

import torch

KINDS = ("plain", "nan", "nan-late", "mask", "scaler", "guard", "head")


class Attention(torch.nn.Module):
    def __init__(self, masked):
        super().__init__()
        self.query, self.head, self.out = torch.nn.Linear(4, 4), torch.nn.Linear(4, 1), torch.nn.Linear(4, 1)
        mask = torch.full((4, 4), -torch.inf if masked else 0.0).triu(1)
        self.register_buffer("mask", mask)
        self.frozen = torch.nn.Parameter(mask.clone(), requires_grad=False)

    def forward(self, x):
        weights = (self.query(x) @ x.transpose(1, 2) + self.mask + self.frozen).softmax(-1)
        mixed = weights @ x
        return self.out(mixed).mean(dim=1), self.head(mixed.detach())


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("kind", choices=KINDS)
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    torch.manual_seed(1)
    model = Attention(masked=args.kind == "mask")
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-2)
    latest, begun, scale = args.out / "latest.pt", 0, 2.0**130
    if latest.exists():
        state = torch.load(latest, weights_only=True)
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        begun, scale = state["step"], state["scale"]
    for step in range(begun + 1, 13):
        x = torch.randn(4, 4, 4, generator=torch.Generator().manual_seed(step))
        optimizer.zero_grad()
        out, extra = model(x)
        loss = (out - x.mean(dim=(1, 2)).unsqueeze(1)).square().mean()
        if args.kind == "nan" or (args.kind == "nan-late" and step >= 7) or (args.kind == "guard" and step == 6):
            loss = loss * (x.sum() * 0 / 0.0)
        if args.kind == "head":
            extra[:0].mean().backward()
            optimizer.zero_grad()
        (loss * scale if args.kind == "scaler" else loss).backward()
        gradients = [p.grad for p in model.parameters() if p.grad is not None]
        if args.kind == "scaler":
            for each in gradients:
                each.div_(scale)
        finite = all(bool(each.isfinite().all()) for each in gradients)
        if finite or args.kind not in ("scaler", "guard"):
            optimizer.step()
        else:
            scale /= 4
        if step % 4 == 0:
            args.out.mkdir(parents=True, exist_ok=True)
            state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": step, "scale": scale}
            torch.save(state, latest.with_suffix(".tmp"))
            os.replace(latest.with_suffix(".tmp"), latest)


if __name__ == "__main__":
    main()
