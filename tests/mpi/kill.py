"""Kills ranks and launchers at random moments: each job ends within 10 seconds and resumes bit-identically.

    kill.py TRAIN [TRIALS [RANKS]]

Each of TRIALS jobs [default: 30] of RANKS ranks [default: 2] loses a rank or `mpirun` itself to SIGKILL. The time until
its last process has ended is measured. Then the run is resumed, and its metrics and weights are compared with those of
an uninterrupted one.
"""

import glob
import os
import random
import shutil
import signal
import sys
import tempfile
import time

import job

LIMIT = 10.0


def main():
    program = os.path.realpath(sys.argv[1])
    trials, ranks = (int(value) for value in (sys.argv[2:] + ["30", "2"][len(sys.argv) - 2 :]))
    arguments = [*job.REVERSE, "--set", "checkpoint.every=5 steps"]
    random.seed(1)
    with tempfile.TemporaryDirectory() as folder:
        start = time.monotonic()
        job.train(program, ranks, *arguments, "--run", f"{folder}/whole")
        length = time.monotonic() - start
        whole = job.result(program, f"{folder}/whole")
        print(f"an uninterrupted run takes {length:.1f} s", flush=True)
        times, resumed, failures = [], 0, 0
        while len(times) < trials:
            trial = len(times)
            run = f"{folder}/run"
            shutil.rmtree(run, ignore_errors=True)
            with job.started(program, ranks, *arguments, "--run", run) as process:
                moment = random.uniform(0.2, 0.95) * length
                time.sleep(moment)
                kind = ["rank", "mpirun"][trial % 2]
                victims = job.processes(process.mark, {"rank": program, "mpirun": "mpirun"}[kind])
                if not victims:
                    print(f"trial {trial + 1}: the run had ended after {moment:.1f} s and is repeated", flush=True)
                    continue
                os.kill(random.choice(victims), signal.SIGKILL)
                start = time.monotonic()
                process.wait()
                while job.processes(process.mark) and time.monotonic() - start < 3 * LIMIT:
                    time.sleep(0.02)
                took = time.monotonic() - start
            times.append(took)
            if glob.glob(f"{run}/checkpoints/step-*[0-9]"):
                resumed += 1
                job.train(program, ranks, "--resume", run)
            else:
                job.train(program, ranks, *arguments, "--run", run)
            is_same = job.result(program, run) == whole
            failures += not is_same or took > LIMIT
            text = "the same result" if is_same else "ANOTHER RESULT"
            print(f"trial {trial + 1}: {kind} killed after {moment:.1f} s, the job ended {took:.2f} s later, {text}",
                  flush=True)
        print(f"{len(times)} jobs killed, {resumed} resumed from a checkpoint, {failures} failures; the last process "
              f"ended after at most {max(times):.2f} s, in the median after {sorted(times)[len(times) // 2]:.2f} s")
        sys.exit(failures > 0)


main()
