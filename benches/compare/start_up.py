"""Milliseconds and memory of `translate` for one sentence, from the start of the process to its end.

    python start_up.py --translate PATH --bundle DIR --text TEXT [--rounds 40] [OPTION ...]

DIR is a bundle; OPTIONs are passed to `translate`. The first round, which is not measured, loads the
files of the bundle into the page cache. Prints one line of JSON: medians and extremes of wall-clock
time and of peak memory.
"""

import argparse
import os
import statistics
import subprocess
import time

from common import emit


def once(command):
    """Milliseconds, megabytes and the translation."""
    start = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    text = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - start
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"error: {command} ended with {process.returncode}")
    return 1000 * seconds, usage.ru_maxrss * 1024 / 1e6, text.rstrip("\n")


def main():
    parser = argparse.ArgumentParser(description="Start-up of `translate`.")
    parser.add_argument("--translate", required=True)
    parser.add_argument("--bundle", required=True)
    parser.add_argument("--text", required=True)
    parser.add_argument("--rounds", type=int, default=40)
    args, options = parser.parse_known_args()
    command = [args.translate, "--model", args.bundle, "--text", args.text, *options]
    once(command)
    found = [once(command) for _ in range(args.rounds)]
    milliseconds, megabytes, texts = zip(*found)
    assert len(set(texts)) == 1, texts
    emit(dict(program="tx", rounds=args.rounds, text=texts[0],
              ms=statistics.median(milliseconds), ms_min=min(milliseconds),
              ms_max=max(milliseconds), rss_mb=statistics.median(megabytes),
              rss_mb_max=max(megabytes)))


if __name__ == "__main__":
    main()
