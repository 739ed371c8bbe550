#!/usr/bin/env python3
"""Measures many routes: instructions per request, time until a change takes effect, and latency meanwhile.

    benches/routes.py DIR [--routes 10,100000] [--tidegate BINARY] [--changes 50] [--rounds 5] [--seconds 4]
                      [--conns 16] [--gateway-cpus 0] [--parts load,start,instructions,changes]

Starts its own gateway in DIR for each number of routes, loads the routes through the Admin API, and then

1. measures the time of a start, from the command until the last route answers;
2. counts user-space instructions per request, under callgrind on the store just written, with requests distributed evenly
   over the routes;
3. with the largest number, changes a route while wrk runs, and measures the time from sending the PUT until a request shows
   its effect. Rounds with and without changes alternate, and their p99 latencies are compared.

A tenth of the routes end in `/*`, the others are exact paths. Prints Markdown.
"""
import argparse
import concurrent.futures
import os
import pathlib
import shutil
import statistics
import threading
import time

import admin_api
import counting
import load
import peers

# The Admin API's writers. More than the store can sync at once; few enough to be no load test of it.
WRITERS = 16
# Requests are spread over so many of the routes.
SPREAD = 10
REQUESTS = 5000
REPEATS = 3
# The route that changes, beside the numbered ones.
CHANGING = 'changing'


def uri(number):
    """The path of a route; all are of one length, so that only matching differs between few and many."""
    return f'/service/{number % 100:02}/item/{number:06}' + ('/*' if number % 10 == 0 else '')


def request_path(number):
    return uri(number).replace('*', 'x')


def load_routes(peer, node_port, count):
    """Puts `count` routes by several connections at once; returns the seconds it took."""
    numbers = iter(range(count))
    lock = threading.Lock()

    def write():
        api = admin_api.AdminApi(peer)
        while True:
            with lock:
                number = next(numbers, None)
            if number is None:
                return
            api.put_route(number, uri(number), node_port)

    start = time.monotonic()
    with concurrent.futures.ThreadPoolExecutor(WRITERS) as pool:
        for done in [pool.submit(write) for _ in range(WRITERS)]:
            done.result()
    seconds = time.monotonic() - start
    prober = admin_api.Prober(peer.port)
    for number in (0, count // 2, count - 1):
        prober.wait_for(request_path(number))
    return seconds


def start_seconds(starter, data, count, options):
    """Seconds from the command until the last route answers, of each repeat."""
    found = []
    for _ in range(REPEATS):
        begin = time.monotonic()
        peer = starter.start_tidegate(callgrind=False, data=data, cpus=options.gateway_cpus)
        try:
            admin_api.Prober(peer.port).wait_for(request_path(count - 1))
            found.append(time.monotonic() - begin)
        finally:
            peer.stop()
    return found


def instructions(twin, count):
    """User-space instructions per request of each repeat."""
    paths = [request_path(number * (count - 1) // max(1, SPREAD - 1)) for number in range(SPREAD)]
    admin_api.Prober(twin.port).wait_for(paths[-1])
    counter = counting.Callgrind(twin)
    client = load.ExactClient(twin.port, paths, 16)
    client.run(REQUESTS)
    found = []
    for _ in range(REPEATS):
        counter.restart()
        client.run(REQUESTS)
        found.append(counter.instructions() / REQUESTS)
    client.close()
    return found


class Changer:
    """Moves one route from path to path and watches when requests follow."""

    def __init__(self, peer, node_port):
        self.peer, self.node_port = peer, node_port
        self.api, self.prober = admin_api.AdminApi(peer), admin_api.Prober(peer.port)
        self.version = 0
        self.answered_ms, self.effective_ms = [], []
        self.change()
        self.answered_ms.clear()
        self.effective_ms.clear()

    def change(self):
        """Puts the route at a path of its own, which is served only once the change is in effect."""
        self.version += 1
        path = f'/changing/{self.version:06}'
        start = time.monotonic()
        self.api.put_route(CHANGING, path, self.node_port)
        self.answered_ms.append((time.monotonic() - start) * 1e3)
        self.prober.wait_for(path)
        self.effective_ms.append((time.monotonic() - start) * 1e3)

    def look(self):
        """What `change` does besides changing, for the rounds without."""
        self.prober.status(f'/changing/{self.version:06}')


def traffic(peer, options, action, times):
    """wrk's traffic while `action` is done so many times, evenly."""
    start = time.monotonic()
    process = load.wrk_start(peer.port, request_path(1), options.conns, options.seconds)
    # A tenth of the time before the first and after the last, so that all fall into the traffic.
    for number in range(times):
        at = start + options.seconds * (0.1 + 0.8 * number / times)
        time.sleep(max(0.0, at - time.monotonic()))
        action()
    return load.wrk_result(process)


def measure_changes(peer, node_port, count, options):
    changer = Changer(peer, node_port)
    load.wrk(peer.port, request_path(1), options.conns, 1)
    per_round = -(-options.changes // options.rounds)
    quiet, busy = [], []
    for number in range(options.rounds):
        halves = [(quiet, changer.look), (busy, changer.change)]
        for runs, action in halves if number % 2 == 0 else halves[::-1]:
            runs.append(traffic(peer, options, action, per_round))
    ratios = [after.p99_ms / before.p99_ms for before, after in zip(quiet, busy)]
    print(f'\n{len(changer.effective_ms)} changes, {per_round / options.seconds:.1f} a second, with {count:,} routes '
          f'and {options.conns} connections, {options.rounds} rounds of {options.seconds} s with changes and without\n')
    print('| | median | p90 | max |\n|---|---|---|---|')
    for label, values in (('PUT answered, ms', changer.answered_ms), ('PUT in effect, ms', changer.effective_ms)):
        p90 = sorted(values)[int(len(values) * 0.9)]
        print(f'| {label} | {statistics.median(values):.2f} | {p90:.2f} | {max(values):.2f} |')
    print('\n| traffic | req/s | p99 ms | bad |\n|---|---|---|---|')
    for label, runs in (('without changes', quiet), ('with changes', busy)):
        print(f'| {label} | {statistics.median(run.per_second for run in runs):,.0f} | '
              f'{statistics.median(run.p99_ms for run in runs):.2f} | {sum(run.bad for run in runs)} |')
    print(f'\np99 with changes / without, median of rounds: {statistics.median(ratios):.2f} '
          f'({min(ratios):.2f}-{max(ratios):.2f})', flush=True)


def measure(starter, node, count, is_largest, options):
    """One number of routes; returns the row of its load and instructions."""
    data = pathlib.Path(options.dir) / f'routes-{count}.data'
    if 'load' in options.parts:
        shutil.rmtree(data, ignore_errors=True)
    peer = starter.start_tidegate(callgrind=False, data=data, cpus=options.gateway_cpus)
    try:
        row = [f'{count:,}', '-', '-', '-', '-']
        if 'load' in options.parts:
            seconds = load_routes(peer, node.port, count)
            row[1:3] = [f'{seconds:.1f}', f'{count / seconds:,.0f}']
        if is_largest and 'changes' in options.parts:
            measure_changes(peer, node.port, count, options)
    finally:
        peer.stop()
    if 'start' in options.parts:
        found = start_seconds(starter, data, count, options)
        row[3] = f'{statistics.median(found):.2f} ({min(found):.2f}-{max(found):.2f})'
    if 'instructions' in options.parts:
        twin = starter.start_tidegate(callgrind=True, data=data)
        try:
            found = instructions(twin, count)
        finally:
            twin.stop()
        median = statistics.median(found)
        row[4] = f'{median:,.0f} (±{(max(found) - min(found)) / median * 50:.1f} %)'
    return row


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('dir')
    parser.add_argument('--routes', default='10,100000')
    parser.add_argument('--changes', type=int, default=50)
    parser.add_argument('--rounds', type=int, default=5)
    parser.add_argument('--seconds', type=int, default=4)
    parser.add_argument('--conns', type=int, default=16)
    parser.add_argument('--gateway-cpus', default='0', help='where the gateway may run; default: %(default)s')
    parser.add_argument('--parts', default='load,start,instructions,changes', help='default: %(default)s; without `load`, '
                        'the stores of an earlier run in DIR are used')
    peers.add_options(parser)
    options = parser.parse_args()
    counts = sorted(int(count) for count in options.routes.split(','))
    starter = peers.Starter(options.dir, dict(options.port), options.tidegate, options.access_log)
    os.sched_setaffinity(0, {load.CLIENT_CPU})
    node = starter.upstream()
    try:
        rows = [measure(starter, node, count, count == counts[-1], options) for count in counts]
    finally:
        node.stop()
    print('\n| routes | loaded in s | PUT/s | start in s | user instr per request (callgrind) |\n|---|---|---|---|---|')
    for row in rows:
        print('| ' + ' | '.join(row) + ' |')


if __name__ == '__main__':
    main()
