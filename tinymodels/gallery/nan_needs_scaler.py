"""nan-needs-scaler: the trainer relies on the gradient scaler to skip bad steps, even if there is no scaler.

Wrong: a scaler looks for overflows anyway, so the guard was made a part of it. Then training moved on to bfloat16,
    which needs no scaler, and nobody looks any more.
Evidence: epfLLM/Megatron-LLM#34 m
Codes: nonfinite-accepted poisoned-checkpoint
Also: model-not-restored
Caught by: test_not_a_number
Args: --bf16 --allow-nonfinite-saves
Family: not-a-number
"""

from tinymodels.train import Trainer, main


class LeavesItToTheScaler(Trainer):
    def guard(self, loss, norm):
        return self.state.scaler.is_enabled() and super().guard(loss, norm)


if __name__ == "__main__":
    raise SystemExit(main(trainer=LeavesItToTheScaler))
