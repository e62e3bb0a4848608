"""Two tiny language models, a GPT and an MLP that sees only the last few tokens, and how the ranks share a model."""

import math

import torch
from torch import nn
from torch.nn import functional as F

from tinymodels.config import Config
from tinymodels.elasticity.world import World


class LanguageModel(nn.Module):
    """What both have in common: embedding, blocks, output head, and the loss."""

    forwards: torch.Tensor
    counts = True  # whether a training forward is counted (see Trainer.step)

    def __init__(self, config: Config, vocabulary: int) -> None:
        super().__init__()
        self.embed = nn.Embedding(vocabulary, config.width)
        self.drop = nn.Dropout(config.dropout)
        self.blocks = nn.ModuleList()
        self.norm = nn.LayerNorm(config.width)
        self.head = nn.Linear(config.width, vocabulary, bias=False)
        # The logits of a new model are damped, less with each training forward. The count is a buffer: state that
        # the optimizer does not know, and that a checkpoint must hold.
        self.register_buffer("forwards", torch.zeros((), dtype=torch.int64))

    def initialise(self) -> None:
        for name, weight in self.named_parameters():
            if weight.dim() >= 2:
                deep = name.endswith("out.weight")  # what is added to the residual stream
                depth = 2 * len(self.blocks) if deep else 1
                nn.init.normal_(weight, std=0.02 / math.sqrt(depth))
            elif name.endswith("bias"):
                nn.init.zeros_(weight)

    def hidden(self, tokens: torch.Tensor) -> torch.Tensor:
        raise NotImplementedError

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        """Return the *sum* of the losses over rows of context + 1 tokens (zero for no rows)."""
        if self.training and self.counts:
            self.forwards += 1
        damping = 1.0 - 0.5 * torch.exp(-self.forwards / 20.0)
        logits = self.head(self.norm(self.hidden(rows[:, :-1]))) * damping
        return F.cross_entropy(logits.flatten(0, 1), rows[:, 1:].flatten(), reduction="sum")


class Attention(nn.Module):
    """Causal self-attention, written out: deterministic on every device, and easy to read."""

    future: torch.Tensor

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.heads = config.heads
        self.qkv = nn.Linear(config.width, 3 * config.width)
        self.out = nn.Linear(config.width, config.width)
        self.drop = nn.Dropout(config.dropout)
        future = torch.ones(config.context, config.context, dtype=torch.bool).triu(1)
        self.register_buffer("future", future, persistent=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        rows, length, width = x.shape
        shape = (rows, length, self.heads, width // self.heads)
        q, k, v = (part.view(shape).transpose(1, 2) for part in self.qkv(x).chunk(3, dim=-1))
        scores = q @ k.transpose(-2, -1) / math.sqrt(width // self.heads)
        scores = scores.masked_fill(self.future[:length, :length], float("-inf"))
        mixed = self.drop(scores.softmax(-1)) @ v
        return self.out(mixed.transpose(1, 2).reshape(rows, length, width))


class FeedForward(nn.Module):
    def __init__(self, config: Config) -> None:
        super().__init__()
        self.into = nn.Linear(config.width, 4 * config.width)
        self.out = nn.Linear(4 * config.width, config.width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.out(F.gelu(self.into(x)))


class Block(nn.Module):
    """One layer of the GPT (with attention) or of the MLP (without)."""

    def __init__(self, config: Config, *, attention: bool) -> None:
        super().__init__()
        if attention:
            self.norm = nn.LayerNorm(config.width)
            self.attention = Attention(config)
        self.attends = attention
        self.norm2 = nn.LayerNorm(config.width)
        self.feed = FeedForward(config)
        self.drop = nn.Dropout(config.dropout)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.attends:
            x = x + self.drop(self.attention(self.norm(x)))
        return x + self.drop(self.feed(self.norm2(x)))


class GPT(LanguageModel):
    def __init__(self, config: Config, vocabulary: int) -> None:
        super().__init__(config, vocabulary)
        self.places = nn.Embedding(config.context, config.width)
        self.blocks.extend(Block(config, attention=True) for _ in range(config.layers))
        self.initialise()

    def hidden(self, tokens: torch.Tensor) -> torch.Tensor:
        places = torch.arange(tokens.shape[1], device=tokens.device)
        x = self.drop(self.embed(tokens) + self.places(places))
        for block in self.blocks:
            x = block(x)
        return x


class MLP(LanguageModel):
    """The last few embeddings side by side, as in Bengio's model of 2003."""

    SEES = 4

    def __init__(self, config: Config, vocabulary: int) -> None:
        super().__init__(config, vocabulary)
        self.mix = nn.Linear(self.SEES * config.width, config.width)
        self.blocks.extend(Block(config, attention=False) for _ in range(config.layers))
        self.initialise()

    def hidden(self, tokens: torch.Tensor) -> torch.Tensor:
        length = tokens.shape[1]
        past = F.pad(self.embed(tokens), (0, 0, self.SEES - 1, 0))
        x = torch.cat([past[:, i : i + length] for i in range(self.SEES)], dim=-1)
        x = self.mix(self.drop(x))
        for block in self.blocks:
            x = block(x)
        return x


def build(config: Config, vocabulary: int) -> LanguageModel:
    return {"gpt": GPT, "mlp": MLP}[config.model](config, vocabulary)


def distribute(bare: nn.Module, average: nn.Module, config: Config, world: World) -> nn.Module:
    """Give each rank the whole model (DDP), or a part of the model and of its average (FSDP2)."""
    if config.parallel == "fsdp":
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import fully_shard

        mesh = init_device_mesh(world.device.type, (world.size,))
        for model in (bare, average):
            for block in model.blocks:  # type: ignore[union-attr]
                fully_shard(block, mesh=mesh)
            fully_shard(model, mesh=mesh)
        return bare

    from torch.nn.parallel import DistributedDataParallel

    # After its first backward DDP rebuilds its buckets in the order in which the gradients came. With three ranks or
    # more, the place in a bucket decides in which order a gradient is summed. So a run that resumes at step 40 would
    # sum that step differently from the uninterrupted run, and differ in the last bit. DDP does not rebuild the
    # buckets while it looks for unused parameters, so let it look. (With two ranks the order does not matter: a + b
    # is b + a.)
    return DistributedDataParallel(bare, find_unused_parameters=world.size > 2)
