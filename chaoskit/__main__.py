"""`python -m chaoskit` is `chaoskit`."""

import sys

from chaoskit.cli import main

sys.exit(main())
