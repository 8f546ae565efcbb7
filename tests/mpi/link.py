"""A link between two network namespaces with a limited bandwidth and a latency, for kernels without `netem`.

    link.py NAMESPACE ADDRESS NAMESPACE ADDRESS GIGABITS MILLISECONDS

Creates a TUN device with its address in each namespace, prints a line, and forwards packets until it is killed. Each
direction sends one packet at a time at the bandwidth, and delivers it after the latency. Packets have up to 65 kB, as
with the offloads of a network card. Needs root.
"""

import collections
import ctypes
import fcntl
import os
import select
import struct
import subprocess
import sys
import time

TUNSETIFF, IFF_TUN, IFF_NO_PI, CLONE_NEWNET = 0x400454CA, 0x1, 0x1000, 0x40000000
LIBC = ctypes.CDLL(None, use_errno=True)
MTU = 65_000
# Packets of a direction that wait at most; further ones are dropped, as by a switch.
QUEUED = 256


def open_device(namespace, address):
    with open(f"/var/run/netns/{namespace}") as file:
        if LIBC.setns(file.fileno(), CLONE_NEWNET) != 0:
            raise OSError(ctypes.get_errno(), "setns")
    device = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(device, TUNSETIFF, struct.pack("16sH22x", b"relay", IFF_TUN | IFF_NO_PI))
    subprocess.run(["ip", "addr", "add", f"{address}/24", "dev", "relay"], check=True)
    subprocess.run(["ip", "link", "set", "dev", "relay", "mtu", str(MTU), "up"], check=True)
    return device


def main():
    first, address, second, other_address, gigabits, milliseconds = sys.argv[1:]
    devices = [open_device(first, address), open_device(second, other_address)]
    peer = dict(zip(devices, reversed(devices)))
    second_per_byte, latency = 8e-9 / float(gigabits), 1e-3 * float(milliseconds)
    sent = dict.fromkeys(devices, 0.0)
    queues = {device: collections.deque() for device in devices}
    print("ready", flush=True)
    while True:
        now = time.monotonic()
        for device, queue in queues.items():
            while queue and queue[0][0] <= now:
                os.write(peer[device], queue.popleft()[1])
        due = [queue[0][0] for queue in queues.values() if queue]
        timeout = max(0.0, min(due) - time.monotonic()) if due else None
        for device in select.select(devices, [], [], timeout)[0]:
            packet = os.read(device, MTU + 100)
            if len(queues[device]) < QUEUED:
                sent[device] = max(sent[device], time.monotonic()) + len(packet) * second_per_byte
                queues[device].append((sent[device] + latency, packet))


main()
