"""Jobs of MPI on this machine, and the results of their runs."""

import contextlib
import glob
import json
import os
import struct
import subprocess
import uuid

# Environment variable by which the processes of a job are found.
MARK = "TX_MPI_JOB"
# Device of all ranks.
DEVICE = os.environ.get("TX_TEST_DEVICE", "cpu")
# More ranks than cores, also as root in a container.
MPIRUN = ["mpirun", "--oversubscribe", "--bind-to", "none", "--allow-run-as-root"]
ENVIRONMENT = {
    "OMPI_MCA_btl_vader_single_copy_mechanism": "none",
    "OMPI_MCA_rmaps_base_oversubscribe": "1",
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "RAYON_NUM_THREADS": "1",
}

# Different dropout masks in every batch, and a last update of an epoch with fewer batches than the others: 2,950
# words are 59 batches.
REVERSE = """--recipe reverse --set data.train_pairs=2950 --set data.valid_pairs=60 --set train.epochs=3
--set validation.every_steps=7 --set metrics.every_steps=1 --set train.accumulate=4""".split() + [
    "--set", "train.batch={ sentences = 50 }",
    "--set", "model.dropout={ embedding = 0.1, residual = 0.1, attention = 0.1, activation = 0.1 }",
]
SMALL = """--recipe small --set data.source=phrasebook --set data.train_pairs=1500 --set data.valid_pairs=60
--set train.epochs=2 --set train.max_minutes=60.0 --set validation.every_steps=7 --set metrics.every_steps=1
--set train.accumulate=4""".split() + ["--set", "train.batch={ tokens = 256 }"]


def environment(**more):
    return {**os.environ, **ENVIRONMENT, **more}


def train(program, ranks, *arguments):
    """Trains on `ranks` ranks; 0 is a process that no launcher has started."""
    launcher = [*MPIRUN, "-n", str(ranks)] if ranks else []
    subprocess.run([*launcher, program, *arguments, "--device", DEVICE, "--quiet"], check=True, env=environment())


@contextlib.contextmanager
def started(program, ranks, *arguments):
    """Starts a job; the environment of its processes has the attribute `mark`."""
    mark = uuid.uuid4().hex
    command = [*MPIRUN, "-n", str(ranks), program, *arguments, "--device", DEVICE, "--quiet"]
    output = subprocess.DEVNULL
    process = subprocess.Popen(command, stdout=output, stderr=output, env=environment(**{MARK: mark}))
    process.mark = mark
    try:
        yield process
    finally:
        for number in processes(mark):
            with contextlib.suppress(OSError):
                os.kill(number, 9)
        process.wait()


def processes(mark, name=None):
    """Process ids of a job that have not ended, of one program or of all."""
    # Linux cuts names.
    name = name and os.path.basename(name)[:15]
    found = []
    for path in glob.glob("/proc/[0-9]*"):
        with contextlib.suppress(OSError):
            with open(f"{path}/environ", "rb") as file:
                if f"{MARK}={mark}".encode() not in file.read().split(b"\0"):
                    continue
            with open(f"{path}/stat") as file:
                own, _, rest = file.read().partition("(")[2].rpartition(")")
            if rest.split()[0] != "Z" and name in (None, own):
                found.append(int(path[6:]))
    return found


def updates(run):
    """Training records of the metrics file, without times and memory."""
    keys = ["step", "epoch", "loss", "accuracy", "learning_rate", "gradient_norm"]
    with open(f"{run}/metrics.jsonl") as lines:
        records = [json.loads(line) for line in lines]
    return [[record[key] for key in keys] for record in records if record["kind"] == "training"]


def last_weights(program, run):
    """All values of the last weights, in the order of the file."""
    subprocess.run([program, "average", run, "--last", "1", "--output", f"{run}/last"], check=True,
                   stderr=subprocess.DEVNULL)
    with open(f"{run}/last/model.safetensors", "rb") as file:
        (length,) = struct.unpack("<Q", file.read(8))
        file.read(length)
        data = file.read()
    return struct.unpack(f"<{len(data) // 4}f", data)


def result(program, run):
    return updates(run), last_weights(program, run)
