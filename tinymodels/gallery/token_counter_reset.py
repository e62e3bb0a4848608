"""token-counter-reset: the token counter restarts at 0 after a resume.

Wrong: the step is restored, since schedule and names of checkpoints hang on it. The tokens are saved beside it and
    nobody reads them. Budgets, scaling curves and bills are made from that count.
Evidence: axolotl-ai-cloud/axolotl#3291 c, axolotl-ai-cloud/axolotl#3940 o, allenai/open-instruct#1284 c
Codes: extra-state-not-restored
Also: log-wrong
Caught by: test_one_rank_mid_epoch test_resume
Family: counters
"""

from tinymodels.checkpoints.state import State
from tinymodels.train import main


class StepsOnly(State):
    def restore_progress(self, saved):
        self.progress.step = saved["step"]


if __name__ == "__main__":
    raise SystemExit(main(state=StepsOnly))
