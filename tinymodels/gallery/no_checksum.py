"""no-checksum: the trainer accepts a checkpoint if all files exist and have the right sizes.

Wrong: checksums cost a read of the whole checkpoint, and a size looks like a check. A bit that has flipped on the disk
    changes no size and raises nothing in `load`: the weights are wrong and the job trains on.
Evidence: TT#4011 c
Codes: corrupt-accepted
Also: model-not-restored optimizer-not-restored ema-not-restored
Caught by: test_flipped_bit
Star: yes
Family: corruption and loading
"""

import json

from tinymodels.checkpoints.loading import Checkpoints
from tinymodels.checkpoints.manifest import NAME, Invalid
from tinymodels.train import main


class BySize(Checkpoints):
    def validate(self, path):
        if not (path / NAME).exists():
            raise Invalid("it is not finished")
        manifest = json.loads((path / NAME).read_text())
        if any((path / name).stat().st_size != file["bytes"] for name, file in manifest["files"].items()):
            raise Invalid("a file has another size")
        return manifest


if __name__ == "__main__":
    raise SystemExit(main(checkpoints=BySize))
