"""The program `txmt`."""

from __future__ import annotations

import signal
import sys

from . import _txmt


def main() -> int:
    # Python's handler would wait until the program has ended.
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    return _txmt.main(["txmt", *sys.argv[1:]])


if __name__ == "__main__":
    sys.exit(main())
