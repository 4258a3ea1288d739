"""Programs: `run` reads the flags and calls `main`."""

import sys

from sluice.compat import flags


def run(main=None, argv=None):
    """Reads the flags and ends the program with what `main(arguments)`
    returns; by default the `main` of the program."""
    argv = flags.FLAGS(sys.argv if argv is None else argv, known_only=True)
    main = main or sys.modules["__main__"].main
    sys.exit(main(argv))
