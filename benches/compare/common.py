"""What the comparison programs share: levels of instructions, memory, versions, processes that print JSON."""

import json
import os
import platform
import resource
import subprocess
import sys

# Variables of tx, CTranslate2, PyTorch, oneDNN and MKL that limit their instructions, by level.
LEVELS = {
    "avx2": {"TX_MAX_INSTRUCTIONS": "avx2", "CT2_FORCE_CPU_ISA": "AVX2", "ATEN_CPU_CAPABILITY": "avx2",
             "ONEDNN_MAX_CPU_ISA": "AVX2", "MKL_ENABLE_INSTRUCTIONS": "AVX2"},
    "avx512-vnni": {"TX_MAX_INSTRUCTIONS": "avx512-vnni", "CT2_FORCE_CPU_ISA": "AVX512",
                    "ATEN_CPU_CAPABILITY": "avx512", "ONEDNN_MAX_CPU_ISA": "AVX512_CORE_VNNI",
                    "MKL_ENABLE_INSTRUCTIONS": "AVX512_E1"},
    "all": {},
}


def peak_megabytes():
    """The most memory this process has held, in units of 10^6 bytes.

    VmHWM of Linux covers this process only. getrusage includes the memory of the parent at the fork,
    so it is used on systems without VmHWM.
    """
    try:
        with open("/proc/self/status") as status:
            for line in status:
                if line.startswith("VmHWM:"):
                    return int(line.split()[1]) * 1024 / 1e6
    except OSError:
        pass
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e6


def processor():
    """Name of the processor and number of cores this process may use."""
    name = platform.processor() or platform.machine()
    try:
        with open("/proc/cpuinfo") as info:
            name = next(line.split(":", 1)[1].strip() for line in info if line.startswith("model name"))
    except (OSError, StopIteration):
        pass
    try:
        cores = len(os.sched_getaffinity(0))
    except AttributeError:
        cores = os.cpu_count()
    return f"{name}, {cores} cores"


def emit(record):
    """Prints one line of JSON."""
    print(json.dumps(record), flush=True)


def ask(command, environment=None, cwd=None):
    """Runs `command` and returns the JSON lines of its standard output; other lines are ignored.
    Standard error is passed on."""
    environment = {**os.environ, **(environment or {})}
    result = subprocess.run(command, env=environment, cwd=cwd, stdout=subprocess.PIPE, text=True)
    if result.returncode != 0:
        raise SystemExit(f"error: {' '.join(map(str, command))} ended with {result.returncode}")
    return [json.loads(line) for line in result.stdout.splitlines() if line.startswith("{")]


def say(text):
    """Prints a message to standard error."""
    print(text, file=sys.stderr, flush=True)
