"""Runs the workloads of ../WORKLOADS.md with Python's prometheus_client.

Prints one line per case: PEER prometheus_client_python workload=… case=… key=value …
Each case runs in a process of its own, so that none sees the memory that another one left behind.
"""

import argparse
import subprocess
import sys

import broker
import record


def at_least_one(text):
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("must be at least 1")
    return number


def parse():
    parser = argparse.ArgumentParser(prog="peer-python")
    workloads = parser.add_subparsers(dest="workload", required=True)

    scrape = workloads.add_parser("broker")
    scrape.add_argument("--case", choices=(*broker.CASES, "all"), default="all")
    # A tenth of the workload: a scrape of all of it takes half a minute.
    scrape.add_argument("--queues", type=at_least_one, default=10_000)
    scrape.add_argument("--scrapes", type=at_least_one, default=3)
    scrape.add_argument("--out", help="write the text of the last scrape there")
    scrape.add_argument("--trace", action="store_true", help="one more scrape under tracemalloc")

    loop = workloads.add_parser("record")
    loop.add_argument("--case", choices=(*record.CASES, "all"), default="all")
    # A tenth of the others' rounds: an operation takes a hundred times as long.
    loop.add_argument("--operations", type=at_least_one, default=100_000)
    loop.add_argument("--rounds", type=at_least_one, default=11)
    return parser.parse_args()


def main():
    chosen = parse()
    if chosen.case == "all":
        for name in (broker if chosen.workload == "broker" else record).CASES:
            again = [sys.executable, *sys.argv, "--case", name]
            if subprocess.run(again, check=False).returncode != 0:
                print(f"peer-python: case {name} failed", file=sys.stderr)
                return 1
    elif chosen.workload == "broker":
        broker.run(chosen.case, chosen.queues, chosen.scrapes, chosen.out, chosen.trace)
    else:
        record.run(chosen.case, chosen.operations, chosen.rounds)
    return 0


if __name__ == "__main__":
    sys.exit(main())
