"""Scaling of `train bench` over ranks of MPI, and a cost model fitted to it.

    scaling.py TRAIN [--ranks 1,2] [--recipes reverse,small,base] [--batches 1] [--updates 10] [--rates local]
        [--set KEY=VALUE ...]

Each rank computes the same number of batches (`--batches`) of an update, so the update grows with the number of ranks.
Each of `--rates` other than `local` runs two ranks in two network namespaces (two-hosts.sh) with that bandwidth
in Gbit/s, and after `+` that latency in milliseconds.

The model of an update of N ranks is

    compute + 2 (N - 1) / N * bytes / bandwidth + 2 (N - 1) * latency

as for a ring: every rank sends and receives 2 (N - 1) messages of 1 / N of the gradients. `compute` is the time of an
update of one rank. Bandwidth and latency are fitted to the median times of adding up, by least squares of the relative
error. The extrapolation assumes one rank per machine with the same compute time and network, no overlap with the
backward pass, and no rank that is slower than others.
"""

import argparse
import json
import os
import statistics
import subprocess

import job


def measure(options, recipe, ranks, rate):
    batches = ranks * options.batches
    command = [os.path.realpath(options.train), "bench", "--json", "--recipe", recipe]
    command += ["--updates", str(options.updates), "--set", f"train.accumulate={batches}"]
    command += [part for value in options.set for part in ("--set", value)]
    launcher = [*job.MPIRUN, "-n", str(ranks)]
    if rate != "local":
        script = os.path.join(os.path.dirname(os.path.realpath(__file__)), "two-hosts.sh")
        launcher = [script, rate, *job.MPIRUN, "-x", "RAYON_NUM_THREADS", "-n", str(ranks)]
    output = subprocess.run([*launcher, *command], check=True, env=job.environment(), stdout=subprocess.PIPE,
                            stderr=subprocess.DEVNULL).stdout
    report = json.loads(output)
    return {
        "seconds": statistics.median(report["timing"]["seconds"]),
        "reducing": statistics.median(report.get("reducing_seconds", [0.0])),
        "bytes": 4 * report["trained_parameters"],
        "tokens_per_second": report["tokens_per_second"],
    }


def fit(rows):
    """Seconds per byte and per message, from (ranks, bytes, seconds): least squares of the relative error."""
    a = b = c = d = e = 0.0
    for ranks, size, seconds in rows:
        x, y = 2 * (ranks - 1) / ranks * size / seconds, 2 * (ranks - 1) / seconds
        a, b, c, d, e = a + x * x, b + x * y, c + y * y, d + x, e + y
    determinant = a * c - b * b
    if len(rows) < 2 or determinant <= 0.0:
        return d / a, 0.0
    per_byte, per_message = (c * d - b * e) / determinant, (a * e - b * d) / determinant
    return (per_byte, per_message) if per_message >= 0.0 else (d / a, 0.0)


def adding_up(ranks, size, per_byte, per_message):
    return 2 * (ranks - 1) / ranks * size * per_byte + 2 * (ranks - 1) * per_message


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("train")
    parser.add_argument("--ranks", default="1,2")
    parser.add_argument("--recipes", default="reverse,small,base")
    parser.add_argument("--batches", type=int, default=1)
    parser.add_argument("--updates", type=int, default=10)
    parser.add_argument("--rates", default="local")
    parser.add_argument("--set", action="append", default=[])
    options = parser.parse_args()
    counts = [int(count) for count in options.ranks.split(",")]
    alone = {}
    for rate in options.rates.split(","):
        print(f"network: {rate}, {options.batches} batches a rank\n")
        print("| recipe | MB | ranks | tokens/s | efficiency | update ms | adding up ms | share | model ms |")
        print("|---|---|---|---|---|---|---|---|---|")
        found = {}
        for recipe in options.recipes.split(","):
            for ranks in counts:
                if ranks > 1:
                    found[recipe, ranks] = measure(options, recipe, ranks, rate)
                    continue
                if recipe not in alone:
                    alone[recipe] = measure(options, recipe, ranks, "local")
                found[recipe, ranks] = alone[recipe]
        rows = [(ranks, m["bytes"], m["reducing"]) for (_, ranks), m in found.items() if ranks > 1]
        per_byte, per_message = fit(rows)
        for (recipe, ranks), m in found.items():
            one = found[recipe, counts[0]]
            efficiency = m["tokens_per_second"] / (ranks / counts[0] * one["tokens_per_second"])
            share = m["reducing"] / m["seconds"]
            model = adding_up(ranks, m["bytes"], per_byte, per_message)
            print(f"| {recipe} | {m['bytes'] / 1e6:.1f} | {ranks} | {m['tokens_per_second']:.0f} | {efficiency:.1%} | "
                  f"{1e3 * m['seconds']:.1f} | {1e3 * m['reducing']:.1f} | {share:.1%} | {1e3 * model:.1f} |", flush=True)
        print(f"\nfitted: {8e-9 / per_byte:.2f} Gbit/s, {1e6 * per_message:.0f} µs a message\n")
        print("| recipe | " + " | ".join(f"{ranks} ranks" for ranks in (2, 8, 64, 512)) + " |")
        print("|---|---|---|---|---|")
        for recipe in options.recipes.split(","):
            one = found[recipe, counts[0]]
            times = [adding_up(ranks, one["bytes"], per_byte, per_message) for ranks in (2, 8, 64, 512)]
            cells = [f"{one['seconds'] / (one['seconds'] + time):.1%}" for time in times]
            print(f"| {recipe} | " + " | ".join(cells) + " |")
        print(flush=True)


main()
