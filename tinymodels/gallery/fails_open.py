"""fails-open: the trainer accepts a checkpoint without checksums as one from before checksums existed.

Wrong: old checkpoints must stay readable, so checksums are compared where there are some. One whose manifest was
    written by another tool, or put together by hand after an accident, is not verified at all, and nobody is told.
Evidence: LMResiliency/lm-resiliency#78 c
Codes: corrupt-accepted
Also: model-not-restored optimizer-not-restored ema-not-restored
Caught by: test_misleading[strip_checksums]
Equivalent: test_flipped_bit (the checksums exist)
Family: corruption and loading
"""

import json

from tinymodels.checkpoints.loading import Checkpoints
from tinymodels.checkpoints.manifest import NAME
from tinymodels.train import main


class Lenient(Checkpoints):
    def validate(self, path):
        manifest = json.loads((path / NAME).read_text()) if (path / NAME).exists() else {"checksum": ""}
        return super().validate(path) if "checksum" in manifest else {**manifest, "about": self.about}


if __name__ == "__main__":
    raise SystemExit(main(checkpoints=Lenient))
