"""A job of one process whose optimizer groups are built in another way after a resume than at the start.

`--way` is how: what `load_state_dict`, which assigns by position, then gives to which parameter is for the test to see.
With `--by-name` the state is loaded by the names of the parameters, which is right however the groups are built.
"""

import argparse
import os
from pathlib import Path

import torch

WAYS = ("order", "moved", "swapped", "late", "tied", "second")
STEPS, EVERY, UNFREEZE = 20, 5, 8


class Net(torch.nn.Module):
    """Layers of equal shape, so that nothing notices whose state it gets."""

    def __init__(self, tied):
        super().__init__()
        self.a, self.b, self.c, self.d = (torch.nn.Linear(6, 6) for _ in range(4))
        if tied:
            self.d.weight = self.a.weight

    def forward(self, x):
        return self.d(torch.tanh(self.c(torch.tanh(self.b(torch.tanh(self.a(x)))))))


def layers(model, names):
    """The parameters of some layers, each once."""
    found = {id(p): p for name in names for p in getattr(model, name).parameters() if p.requires_grad}
    return list(found.values())


def optimizers(model, way, resumed):
    """The optimizers, as they are built at the start and after a resume."""

    def adam(*groups):
        decays = (0.1, 0.0, 0.0, 0.0)
        return torch.optim.AdamW(
            [
                {"params": layers(model, names), "weight_decay": decay}
                for names, decay in zip(groups, decays, strict=False)
            ],
            lr=0.01,
        )

    match way:
        case "order":
            return [adam("ab", "cd")] if not resumed else [adam_reversed(model)]
        case "moved":
            return [adam("ab", "cd") if not resumed else adam("ac", "bd")]
        case "swapped":
            return [adam("abcd") if not resumed else adam("bacd")]
        case "late":
            return [adam("b", "c", "d") if not resumed else adam("b", "a", "c", "d")]
        case "tied":
            return [adam("abcd") if not resumed else adam("dcba")]
        case _:
            pair = adam("ab"), adam("cd")
            return list(pair if not resumed else reversed(pair))


def adam_reversed(model):
    """The groups of `order` the other way round, each with its own decay."""
    groups = [
        {"params": layers(model, "cd"), "weight_decay": 0.0},
        {"params": layers(model, "ab"), "weight_decay": 0.1},
    ]
    return torch.optim.AdamW(groups, lr=0.01)


def by_name(model, found):
    """The state of all optimizers by the names of the parameters."""
    names = {id(p): name for name, p in model.named_parameters()}
    return {
        names[id(p)]: (each.state.get(p, {}), group["weight_decay"])
        for each in found for group in each.param_groups for p in group["params"]
    }  # fmt: skip


def load_by_name(model, found, saved):
    """Put it back, the decay too: a parameter that is in a group of another decay gets a group of its own."""
    names = {id(p): name for name, p in model.named_parameters()}
    for each in found:
        held, decays = [p for group in each.param_groups for p in group["params"]], {}
        for p in held:
            state, decay = saved.get(names[id(p)], ({}, 0.0))
            decays.setdefault(decay, []).append(p)
            if state:
                each.state[p] = {key: value.clone() for key, value in state.items()}
        options = {key: value for key, value in each.param_groups[0].items() if key != "params"}
        each.param_groups = [{**options, "params": own, "weight_decay": decay} for decay, own in decays.items()]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--way", choices=WAYS, required=True)
    parser.add_argument("--by-name", action="store_true")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(1)
    model = Net(args.way == "tied")
    file = args.out / "latest.pt"
    resumed = file.exists()
    model.a.requires_grad_(args.way != "late" or resumed)
    found = optimizers(model, args.way, resumed)
    first = 0
    if resumed:
        saved = torch.load(file, weights_only=True)
        first = saved["step"]
        model.load_state_dict(saved["model"])
        if args.by_name:
            load_by_name(model, found, saved["names"])
        else:
            for each, state in zip(found, saved["optimizers"], strict=True):
                each.load_state_dict(state)
    for step in range(first + 1, STEPS + 1):
        if args.way == "late" and step == UNFREEZE + 1 and not resumed:
            model.a.requires_grad_(True)
            found[0].add_param_group({"params": layers(model, "a"), "weight_decay": 0.0})
        x = torch.randn(16, 6, generator=torch.Generator().manual_seed(step))
        for each in found:
            each.zero_grad()
        torch.nn.functional.mse_loss(model(x), x.roll(1, 1)).backward()
        for each in found:
            each.step()
        if step % EVERY == 0:
            state = {
                "step": step,
                "model": model.state_dict(),
                "optimizers": [each.state_dict() for each in found],
                "names": by_name(model, found),
            }
            torch.save(state, args.out / "new.pt")
            os.replace(args.out / "new.pt", file)


if __name__ == "__main__":
    main()
