"""`python -m xpsample`."""

import sys

from xpsample.cli import main

sys.exit(main())
