"""N ranks with a batches each make the same updates as one process with N·a batches, to rounding.

    invariant.py TRAIN [RANKS ...]

Compares every update of the recipes `reverse` and `small` with that of one process, with dropout; also of a run that is
resumed on another number of ranks. With SGD and GELU, rounding is not amplified, so the weights are compared, too. Adam
divides by the gradient, so weights with a gradient of almost zero differ, but the loss does not depend on them; and a
ReLU whose input is almost zero has a gradient or none.
"""

import sys
import tempfile

import job

# Largest relative difference of loss and gradient norm, and largest absolute difference of a weight.
LOSS, NORM, WEIGHT = 1e-5, 1e-3, 1e-6


def compare(program, expected, found, name, weights):
    one, other = job.updates(expected), job.updates(found)
    assert len(one) == len(other) > 20, (len(one), len(other))
    loss = norm = 0.0
    for a, b in zip(one, other):
        assert a[:2] == b[:2] and a[4] == b[4], (a, b)
        loss = max(loss, abs(a[2] - b[2]) / a[2])
        norm = max(norm, abs(a[5] - b[5]) / a[5])
    text = f"{name}: {len(one)} updates, largest relative difference of the loss {loss:.1e}, of the norm {norm:.1e}"
    weight = 0.0
    if weights:
        pairs = zip(job.last_weights(program, expected), job.last_weights(program, found), strict=True)
        weight = max(abs(a - b) for a, b in pairs)
        text += f", of a weight {weight:.1e}"
    print(text, flush=True)
    assert loss <= LOSS and norm <= NORM and weight <= WEIGHT


def main():
    program, counts = sys.argv[1], [int(count) for count in sys.argv[2:]] or [2]
    sgd = ["--set", "train.optimizer=sgd", "--set", "train.learning_rate=0.01", "--set", "train.clip_norm=1.0",
           "--set", "model.activation=gelu"]
    with tempfile.TemporaryDirectory() as folder:
        for name, arguments in [("reverse", job.REVERSE), ("reverse, SGD", job.REVERSE + sgd), ("small", job.SMALL)]:
            weights = name.endswith("SGD")
            run = f"{folder}/{name}".replace(", ", "-")
            job.train(program, 0, *arguments, "--run", run)
            for count in counts:
                job.train(program, count, *arguments, "--run", f"{run}-{count}")
                compare(program, run, f"{run}-{count}", f"{name}, {count} ranks", weights)
        run = f"{folder}/resumed"
        job.train(program, max(counts), *job.REVERSE, *sgd, "--run", run, "--set", "train.max_steps=11")
        job.train(program, 1, "--resume", run, "--set", "train.max_steps=20")
        job.train(program, min(counts), "--resume", run, "--set", "train.max_steps=100")
        name = f"resumed on 1 rank after {max(counts)}, then on {min(counts)}"
        compare(program, f"{folder}/reverse-SGD", run, name, True)


main()
