"""A signal to one rank stops all with a checkpoint, and the resumed run equals an uninterrupted one, bit for bit.

    stop.py TRAIN [RANKS]
"""

import os
import random
import signal
import subprocess
import sys
import tempfile
import time

import job


def main():
    program, ranks = os.path.realpath(sys.argv[1]), int((sys.argv[2:] + ["2"])[0])
    arguments = [*job.REVERSE, "--set", "checkpoint.every=1000 steps"]
    with tempfile.TemporaryDirectory() as folder:
        start = time.monotonic()
        job.train(program, ranks, *arguments, "--run", f"{folder}/whole")
        length = time.monotonic() - start
        run, stopped = f"{folder}/run", 0
        with job.started(program, ranks, *arguments, "--run", run) as process:
            while not os.path.exists(f"{run}/metrics.jsonl"):
                assert process.poll() is None and time.monotonic() - start < 600, "the job does not start"
                time.sleep(0.01)
            time.sleep(length / 5)
            random.seed(1)
            victims = job.processes(process.mark, program)
            os.kill(random.choice(victims), signal.SIGTERM)
            code = process.wait(timeout=60)
        assert code in (130, 143), code
        stopped = len(job.updates(run))
        job.train(program, ranks, "--resume", run)
        assert job.result(program, run) == job.result(program, f"{folder}/whole"), "the result differs"
        print(f"a signal to one of {ranks} ranks stopped all after {stopped} of {len(job.updates(run))} updates with exit "
              f"code {code}; the resumed run has the same result")


main()
