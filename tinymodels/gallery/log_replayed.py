"""log-replayed: the metrics file keeps the rolled-back steps, which then appear again.

Wrong: the file is opened to append, and that was all. A crash loses the steps since the last checkpoint, the file keeps
    them, and the resumed run adds them a second time: more tokens, more steps, a curve that goes back.
Evidence: allenai/tango#152 c
Codes: log-wrong
Caught by: test_one_rank_mid_epoch test_resume
Options: --log-file metrics.jsonl --log-regex '"step": (?P<step>[0-9]+), "loss": "(?P<loss>[^"]+)"'
Family: logs
"""

from tinymodels.metrics import Metrics
from tinymodels.train import main


class Appended(Metrics):
    def rewind(self, step):
        self.path.parent.mkdir(parents=True, exist_ok=True)


if __name__ == "__main__":
    raise SystemExit(main(metrics=Appended))
