#!/usr/bin/env python3
"""Measures load balancing: user instructions of one selection and the following outcome report, by algorithm.

    benches/balancers.py [--nodes 1000] [--times 20000]

Builds `crates/balance/examples/choices.rs` for release and runs it under callgrind, twice for each algorithm. The second run
selects twice as often, so the difference is the cost of the selections without the creation of the balancer. The cost of the
example's loop without a balancer is subtracted. Prints Markdown.
"""
import argparse
import json
import re
import subprocess
import sys

ALGORITHMS = ['roundrobin', 'chash', 'ewma', 'least_conn', 'p2c']
INSTRUCTIONS_MAX = 300


def example():
    """The path of the example, built."""
    command = ['cargo', 'build', '--release', '-p', 'balance', '--example', 'choices', '--message-format', 'json']
    lines = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.splitlines()
    built = [json.loads(line) for line in lines]
    return next(message['executable'] for message in built
                if message.get('target', {}).get('name') == 'choices' and message.get('executable'))


def instructions(program, algorithm, nodes, times):
    """User instructions of the whole run."""
    command = ['valgrind', '--tool=callgrind', '--callgrind-out-file=/dev/null', program, algorithm, str(nodes), str(times)]
    said = subprocess.run(command, check=True, capture_output=True, text=True).stderr
    return int(re.search(r'Collected : (\d+)', said).group(1))


def each(program, algorithm, options):
    """User instructions each time round."""
    once, twice = (instructions(program, algorithm, options.nodes, options.times * factor) for factor in (1, 2))
    return (twice - once) / options.times


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--nodes', type=int, default=1000)
    parser.add_argument('--times', type=int, default=20_000)
    options = parser.parse_args()
    program = example()
    print(f'| algorithm | user instructions a choice, {options.nodes} nodes |\n|---|---|')
    above = []
    loop = each(program, 'none', options)
    for algorithm in ALGORITHMS:
        choice = each(program, algorithm, options) - loop
        print(f'| {algorithm} | {choice:.0f} |', flush=True)
        if choice > INSTRUCTIONS_MAX:
            above.append(algorithm)
    if above:
        sys.exit(f'more than {INSTRUCTIONS_MAX} instructions: {", ".join(above)}')


if __name__ == '__main__':
    main()
