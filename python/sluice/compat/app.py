"""Entry points of programs: `run` parses the flags and calls `main`."""

import sys

from sluice.compat import flags


def run(main=None, argv=None):
    """Parses the flags, calls `main(arguments)` (by default the program's
    `main`) and exits with its result."""
    argv = flags.FLAGS(sys.argv if argv is None else argv, known_only=True)
    main = main or sys.modules["__main__"].main
    sys.exit(main(argv))
