"""async-slow-writer: a thread writes the checkpoints, and a slow disk lets the training get far ahead of it.

Right: a checkpoint is published once all of it is written, and one whose writing failed never is. The training goes on
    meanwhile, so that a fault of the storage meets a save many steps after it began.
Silent in: test_disk_full test_one_rank_mid_epoch test_resume
Args: --save-async --write-delay 0.2
"""

from tinymodels.train import main

if __name__ == "__main__":
    raise SystemExit(main())
