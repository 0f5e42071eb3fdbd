"""`python -m xpsample`, and the command `xpsample`."""

import sys


def main() -> int:
    """Run the command line; Ctrl-C ends it quietly while it is being imported, too."""
    try:
        from xpsample.cli import main as run
    except KeyboardInterrupt:
        return 130
    return run()


if __name__ == "__main__":
    sys.exit(main())
