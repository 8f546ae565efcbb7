"""Compares the Python package with the program on the same sentences: tokens per second, threads, latency, memory.

    python3 benches/compare/python_package.py PROGRAM BUNDLE SOURCE [--sentences N] [--repeat N] [--calls N]

PROGRAM is `txmt`. Both translate the first N sentences of SOURCE with batches of the same size; the time of a run with the
first tenth is subtracted from both, so that starting and loading do not count. `--calls` is the number of calls with one
sentence over which the memory is observed. Prints a line of JSON for each measurement.
"""

import argparse
import json
import resource
import statistics
import subprocess
import tempfile
import threading
import time
from pathlib import Path

import txmt


def seconds(work):
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("bundle")
    parser.add_argument("source")
    parser.add_argument("--sentences", type=int, default=1000)
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--calls", type=int, default=0)
    parser.add_argument("--beams", type=int, nargs="+", default=[1, 4])
    arguments = parser.parse_args()
    lines = Path(arguments.source).read_text(encoding="utf-8").splitlines()[: arguments.sentences]
    few = lines[: len(lines) // 10]
    translator = txmt.Translator(arguments.bundle)
    with tempfile.TemporaryDirectory() as folder:
        files = {}
        for name, content in [("all", lines), ("few", few)]:
            files[name] = Path(folder) / name
            files[name].write_text("".join(f"{line}\n" for line in content), encoding="utf-8")

        def program(name, beam):
            command = [arguments.program, "translate", "--model", arguments.bundle, "--beam", str(beam)]
            with files[name].open("rb") as source:
                subprocess.run([*command, "--quiet"], stdin=source, stdout=subprocess.DEVNULL, check=True)

        def package(content, beam):
            translator.translate_batch(content, beam_size=beam)

        def threads(content, beam):
            shares = [content[index::8] for index in range(8)]
            running = [threading.Thread(target=package, args=(share, beam)) for share in shares]
            for thread in running:
                thread.start()
            for thread in running:
                thread.join()

        for beam in arguments.beams:
            found = {"program": [], "package": [], "threads": []}
            for _ in range(arguments.repeat):
                found["program"].append(
                    seconds(lambda: program("all", beam)) - seconds(lambda: program("few", beam))
                )
                found["package"].append(
                    seconds(lambda: package(lines, beam)) - seconds(lambda: package(few, beam))
                )
                found["threads"].append(
                    seconds(lambda: threads(lines, beam)) - seconds(lambda: threads(few, beam))
                )
            medians = {name: round(statistics.median(times), 4) for name, times in found.items()}
            speed = {name: round(medians["program"] / medians[name], 3) for name in ("package", "threads")}
            print(json.dumps({"beam": beam, "seconds": medians, "speed_of_program": speed}), flush=True)

    text = lines[0]
    times = sorted(seconds(lambda: translator.translate(text, beam_size=1)) for _ in range(500))
    print(json.dumps({"latency_ms": round(1000 * times[250], 3)}), flush=True)
    if arguments.calls:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        for call in range(arguments.calls):
            translator.translate(lines[call % len(lines)], beam_size=1)
        after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        print(json.dumps({"peak_megabytes": [before // 1000, after // 1000], "calls": arguments.calls}))


if __name__ == "__main__":
    main()
