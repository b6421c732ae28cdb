"""`python -m bioattn_cli`."""

import sys

from bioattn_cli.main import main

sys.exit(main())
