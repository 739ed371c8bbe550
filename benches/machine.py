#!/usr/bin/env python3
"""Prints the machine and the versions of a measurement, as a Markdown list.

    benches/machine.py [--tidegate BINARY]
"""
import argparse
import os
import pathlib
import re
import subprocess

import counting
import peers


def first_line(*command):
    """What a program says of its version; both streams, because some use one and some the other."""
    try:
        done = subprocess.run(command, capture_output=True, text=True)
    except FileNotFoundError:
        return 'not installed'
    return next(iter((done.stdout + done.stderr).strip().splitlines()), 'unknown')


def found(pattern, path):
    match = re.search(pattern, pathlib.Path(path).read_text(), re.MULTILINE)
    return match.group(1) if match else 'unknown'


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--tidegate', metavar='BINARY', help='default: target/release/tidegate')
    options = parser.parse_args()
    processor = found(r'model name\s*: (.*)', '/proc/cpuinfo')
    kind = 'virtual machine' if ' hypervisor' in pathlib.Path('/proc/cpuinfo').read_text() else 'bare metal'
    memory_gib = int(found(r'MemTotal:\s+(\d+)', '/proc/meminfo')) / (1 << 20)
    system = found(r'^PRETTY_NAME="?([^"\n]*)', '/etc/os-release')
    print(f'- machine: {processor}, {kind}, {os.cpu_count()} cores, {memory_gib:.0f} GiB; {system}, '
          f'kernel {os.uname().release}')
    perf = 'reachable' if counting.PerfCounters.are_available() else 'not reachable'
    print(f'- the processor\'s counters: {perf}; load average when this was printed: {os.getloadavg()[0]:.1f}')
    for name, *command in [
        ('tidegate', options.tidegate or peers.built_tidegate(), 'version'),
        ('nginx', 'nginx', '-v'),
        ('HAProxy', 'haproxy', '-v'),
        ('wrk', 'wrk', '-v'),
        ('valgrind', 'valgrind', '--version'),
        ('Rust', 'rustc', '--version'),
    ]:
        print(f'- {name}: {first_line(*command)}')


if __name__ == '__main__':
    main()
