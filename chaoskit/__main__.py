"""`python -m chaoskit` is `chaoskit`."""

import sys

from chaoskit.cli.main import main

sys.exit(main())
