#!/usr/bin/env python3
"""What the live page costs a run: pairs of runs, without it, and with it while one browser follows and another has stalled.

Prints the median step of each pair, and the processor time that the page's threads take, on which other programs of the machine
have little influence.

Usage: scripts/live_page_cost.py PAIRS CONFIG [--set section.key=value …]
"""

import glob
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time

PROGRAM = os.path.join(os.path.dirname(__file__), "..", "build", "bin", "train-gpt")


def median_step(folder):
    with open(os.path.join(folder, "cost", "metrics.jsonl")) as log:
        return statistics.median(record["ms"]["step"] for record in map(json.loads, log) if record["event"] == "step")


def connect(port, read):
    client = socket.create_connection(("127.0.0.1", port))
    client.sendall(b"GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n")
    if read:
        threading.Thread(target=lambda: all(iter(lambda: client.recv(1 << 20), b"")), daemon=True).start()
    return client


def page_seconds(pid):
    """Processor time so far of the threads that are named "live page"."""
    ticks = 0
    for file in glob.glob(f"/proc/{pid}/task/*/stat"):
        try:
            with open(file) as stat:
                name, fields = stat.read().split("(", 1)[1].rsplit(")", 1)
        except FileNotFoundError:  # a rank has just ended
            continue
        if name == "live page":
            ticks += sum(int(field) for field in fields.split()[11:13])
    return ticks / os.sysconf("SC_CLK_TCK")


def run(arguments, dashboard):
    with tempfile.TemporaryDirectory() as folder:
        settings = [f"run.out_dir={folder}", "run.name=cost", "log.console=plain"] + ["log.dashboard=0"] * dashboard
        command = [PROGRAM, "train", *arguments, *(word for setting in settings for word in ("--set", setting))]
        program = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        busy, clients, begin = 0.0, [], time.monotonic()
        for line in program.stdout:
            if line.startswith("dashboard: "):
                port = int(line.rsplit(":", 1)[1])
                clients = [connect(port, read) for read in (True, False)]
                begin = time.monotonic()
            elif clients and (taken := page_seconds(program.pid)) > 0:  # the last lines may come after the end
                busy = taken / (time.monotonic() - begin)
        if program.wait() != 0:
            sys.exit(1)
        return median_step(folder), busy


def main():
    for _ in range(int(sys.argv[1])):
        without, _ = run(sys.argv[2:], False)
        with_page, busy = run(sys.argv[2:], True)
        print(f"step {without:.2f} ms, with the page {with_page:.2f} ms ({100 * (with_page / without - 1):+.2f} %); "
              f"the page's threads: {1e3 * busy:.1f} ms of processor time a second, "
              f"{100 * busy / os.cpu_count():.2f} % of {os.cpu_count()} cores", flush=True)


main()
