"""Hooks into torch. Each wrapper calls the original exactly once; errors of the probe never reach the job."""

from __future__ import annotations

import functools
import sys
from typing import TYPE_CHECKING, Any

from chaoskit.probe.components import unwrapped
from chaoskit.probe.consumed import learns, prepares
from chaoskit.probe.graphs import hook_graphs
from chaoskit.probe.process_groups import hook_process_groups
from chaoskit.probe.row_hooks import hook_tensors
from chaoskit.protocol.fingerprint import is_tensor

if TYPE_CHECKING:
    from chaoskit.probe.observer import Observer
    from chaoskit.probe.session import ProbeSession


def install(session: ProbeSession, observer: Observer, torch: Any) -> None:
    """Install the hooks in the torch that the job has just imported."""
    hooks = _Hooks(session, observer, torch)
    hooks.modules()
    hooks.backward()
    hooks.optimizers()
    hooks.scalers()
    hooks.averages()
    hooks.loaders()
    hook_tensors(session, torch, hooks.outside)
    hook_graphs(session, observer, torch.cuda.CUDAGraph, hooks.outside)
    session.outside = hooks.outside
    hook_process_groups(session, observer, torch)


class _Hooks:
    def __init__(self, session: ProbeSession, observer: Observer, torch: Any) -> None:
        self.session = session
        self.observer = observer
        self.torch = torch
        self.depth = 0
        self.backwards = 0
        self.fetching = 0
        self.wrapped: Any = None

    def outside(self) -> bool:
        """Whether what happens now is outside of every model, and not what a data loader does by itself."""
        return not (self.depth or self.backwards or self.fetching)

    def modules(self) -> None:
        """Watch the outermost forward pass in training mode, which gets the batch.

        torch's global forward pre-hook does not get keyword arguments, and any global hook changes how torch.compile
        treats modules. So `Module.__call__` is replaced, before torch._dynamo is imported and takes it for the
        original.
        """
        module_class = self.torch.nn.Module
        original = module_class.__call__
        grad_enabled = self.torch.is_grad_enabled

        @functools.wraps(original)
        def call(module: Any, *args: Any, **kwargs: Any) -> Any:
            # Recomputation inside a backward pass (activation checkpointing) is no new batch; nor is what a data set
            # does to its rows while a loader fetches them.
            if self.depth or self.backwards or self.fetching or not module.training or not grad_enabled():
                if module is self.wrapped:
                    self._begins(module)
                return original(module, *args, **kwargs)
            self.depth += 1
            moments = self.session.moments if self.observer.capturing is None else None
            if moments is not None and not prepares(module, (args, kwargs)):
                self.session.guard("put back", moments.forward, module)
            inner = unwrapped(module)
            if inner is module:
                self._begins(module)
            else:
                self.wrapped = inner
            try:
                if prepares(module, (args, kwargs)):
                    result = original(module, *args, **kwargs)
                    if learns(result):
                        self.session.guard("forward", self.observer.forward, module, args, kwargs)
                    return result
                self.session.guard("forward", self.observer.forward, module, args, kwargs)
                injector = self.session.injector
                if injector is None or self.observer.capturing is not None:
                    return original(module, *args, **kwargs)
                given = self.session.guard("corrupt", injector.forward, module, args, kwargs) or (args, kwargs)
                result = original(module, *given[0], **given[1])
                changed = self.session.guard("corrupt", injector.result, result)
                return result if changed is None else changed
            finally:
                self.depth -= 1
                self.wrapped = None

        module_class.__call__ = call

    def _begins(self, module: Any) -> None:
        """The forward of the model itself begins. By now a wrapper (DistributedDataParallel) has copied the buffers of
        rank 0 to all ranks."""
        self.wrapped = None
        if self.observer.capturing is None:
            self.session.guard("buffers", self.observer.forward_begins, module)

    def backward(self) -> None:
        """Watch every backward pass: `Tensor.backward`, `torch.autograd.backward`, `torch.autograd.grad`."""
        torch = self.torch

        def wrapped(original: Any, *, has_loss: bool) -> Any:
            # The name of the first argument differs, and callers may use it as a keyword.
            @functools.wraps(original)
            def run(*args: Any, **kwargs: Any) -> Any:
                away = self.backwards or self.observer.capturing is not None
                injector = self.session.injector if not away else None
                if not self.backwards:
                    tensors = args[0] if args else kwargs.get("tensors")
                    one = tensors[0] if isinstance(tensors, (list, tuple)) and tensors else tensors
                    # A pass may also begin from an edge of the graph, which has no value.
                    loss = one if has_loss and is_tensor(one) else None
                    if injector is not None:
                        # First, so that the changed loss is recorded.
                        self.session.guard("corrupt", injector.backward, loss)
                    self.session.guard("backward", self.observer.backward, loss)
                self.backwards += 1
                try:
                    result = original(*args, **kwargs)
                finally:
                    self.backwards -= 1
                if injector is not None:
                    self.session.guard("corrupt", injector.backward_ended)
                return result

            return run

        torch.Tensor.backward = wrapped(torch.Tensor.backward, has_loss=True)
        torch.autograd.backward = wrapped(torch.autograd.backward, has_loss=True)
        torch.autograd.grad = wrapped(torch.autograd.grad, has_loss=False)
        # TorchScript knows these two by identity, and would compile what it does not know.
        for function, operator in (
            (torch.autograd.grad, "aten::grad"),
            (torch.autograd.backward, "aten::backward"),
        ):
            self.session.guard("jit", lambda f, o: torch.jit._builtins._register_builtin(f, o), function, operator)

    def optimizers(self) -> None:
        """Watch every new optimizer and every step, also one whose forward and backward run in a closure."""
        optimizer_class = self.torch.optim.Optimizer
        add_group = optimizer_class.add_param_group

        @functools.wraps(add_group)
        def add_param_group(optimizer: Any, *args: Any, **kwargs: Any) -> Any:
            self.session.guard("optimizer", self.observer.training.add, "optimizer", optimizer)
            return add_group(optimizer, *args, **kwargs)

        optimizer_class.add_param_group = add_param_group

        zero_grad = optimizer_class.zero_grad

        @functools.wraps(zero_grad)
        def cleared(optimizer: Any, *args: Any, **kwargs: Any) -> Any:
            # A step whose update is skipped shows nothing else.
            if self.observer.moved and not self.backwards:
                order = self.session.guard("step", self.observer.leave_out)
                if isinstance(order, BaseException):
                    raise order
            return zero_grad(optimizer, *args, **kwargs)

        optimizer_class.zero_grad = cleared

        def before(optimizer: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            closure = kwargs.get("closure", args[1] if len(args) > 1 else None)
            if not callable(closure):
                self._step(optimizer)
                return None
            first = True

            # The closure computes the loss of the step: record the step after its first call. Some optimizers (LBFGS)
            # call it several times in one step: the other calls belong to no step.
            def around() -> Any:
                nonlocal first
                result = closure()
                if first:
                    first = False
                    self._step(optimizer)
                else:
                    self.observer.forget()
                return result

            if "closure" in kwargs:
                return args, {**kwargs, "closure": around}
            return (args[0], around, *args[2:]), kwargs

        # Where the step itself is compiled, dynamo would trace the probe; an attribute, so as not to import dynamo.
        before._torchdynamo_disable = True  # type: ignore[attr-defined]

        from torch.optim.optimizer import register_optimizer_step_pre_hook

        register_optimizer_step_pre_hook(before)

    def _step(self, optimizer: Any) -> None:
        before_step = self.observer.before_step
        # Where the step itself is compiled, dynamo would compile each function that is called from here.
        if disable := getattr(sys.modules.get("torch._dynamo"), "disable", None):
            before_step = disable(before_step)
        order = self.session.guard("step", before_step, optimizer)
        if isinstance(order, BaseException):
            raise order

    def scalers(self) -> None:
        """Watch `GradScaler.step`. It may skip the optimizer's step; that is a step all the same."""
        scaler_class = self.torch.amp.GradScaler
        scale, step, init = scaler_class.scale, scaler_class.step, scaler_class.__init__

        @functools.wraps(init)
        def made(scaler: Any, *args: Any, **kwargs: Any) -> None:
            init(scaler, *args, **kwargs)
            self.session.guard("scaler", self.observer.training.add, "scaler", scaler)

        @functools.wraps(scale)
        def scaled(scaler: Any, outputs: Any) -> Any:
            product = scale(scaler, outputs)
            # Of several losses it is not known later which one a backward pass begins from.
            if is_tensor(outputs):
                self.session.guard("scale", self.observer.scaled, outputs, product)
            return product

        @functools.wraps(step)
        def stepped(scaler: Any, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
            if self.observer.moved:
                self._step(optimizer)
            return step(scaler, optimizer, *args, **kwargs)

        scaler_class.__init__, scaler_class.scale, scaler_class.step = made, scaled, stepped

    def averages(self) -> None:
        """Watch averaged models when they are made."""
        average_class = self.torch.optim.swa_utils.AveragedModel
        init = average_class.__init__

        @functools.wraps(init)
        def made(average: Any, *args: Any, **kwargs: Any) -> None:
            init(average, *args, **kwargs)
            self.session.guard("average", self.observer.training.add, "average", average)

        average_class.__init__ = made

    def loaders(self) -> None:
        """Watch the iterators of data loaders: their beginning, the rows they request, the batches they return."""
        iterator_class = self.torch.utils.data.dataloader._BaseDataLoaderIter
        reset, ask, following = iterator_class._reset, iterator_class._next_index, iterator_class.__next__
        init = iterator_class.__init__
        loading, guard = self.observer.loading, self.session.guard

        @functools.wraps(init)
        def made(iterator: Any, *args: Any, **kwargs: Any) -> None:
            before = guard("rng", self.torch.get_rng_state)
            init(iterator, *args, **kwargs)
            # The workers get the number that every iterator draws. Without workers nobody gets it.
            if before is not None and not getattr(iterator, "_num_workers", 1):
                guard("rng", self.observer.drew_for_nobody, before)

        @functools.wraps(reset)
        def begin(iterator: Any, *args: Any, **kwargs: Any) -> Any:
            if self.session.moments is not None:
                guard("put back", self.session.moments.begins, iterator)
            guard("loading", loading.begins, iterator)
            return reset(iterator, *args, **kwargs)

        @functools.wraps(ask)
        def asked(iterator: Any) -> Any:
            moments = self.session.moments
            if moments is not None:
                # Not guarded as a whole: the end of an epoch is an exception.
                index = moments.asks(iterator, functools.partial(ask, iterator))
                guard("put back", moments.asked, iterator, index)
            else:
                index = ask(iterator)
            guard("loading", loading.asks, iterator, index)
            return index

        @functools.wraps(following)
        def draw(iterator: Any) -> Any:
            if self.session.moments is not None:
                guard("put back", self.session.moments.draws)
            guard("loading", self.observer.draws, iterator)
            self.fetching += 1
            guard("own time", self.observer.own_time.fetches)
            try:
                batch = following(iterator)
            finally:
                self.fetching -= 1
                guard("own time", self.observer.own_time.fetched)
            guard("loading", loading.hands_out, iterator, batch)
            return batch

        iterator_class._reset, iterator_class._next_index, iterator_class.__next__ = begin, asked, draw
        iterator_class.__init__ = made
