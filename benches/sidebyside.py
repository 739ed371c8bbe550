#!/usr/bin/env python3
"""Compares gateways: the cost of a proxied keep-alive request, and its ratio to nginx and the relay.

    benches/sidebyside.py DIR [--path /hello,/k1,/k64] [--conns 1,16,128] [--scenario none|two-plugins|forward-auth]
                              [--rounds 6] [--seconds 2] [--only NAMES] [--bench BINARY] [--no-callgrind]
                              [--emulated]

DIR is the folder in which `peers.py` started the gateways. wrk runs against one after the other, forward and backward (A B C,
C B A). Ratios are computed within a round, so that changes of the machine affect both sides. The median is shown with the
quartiles. Prints Markdown.

User instructions come from the processor's counters if available, and otherwise from the twins under callgrind, which receive
an exact number of requests three times; the spread of the three is shown. Kernel instructions and cycles need the processor's
counters; without them, CPU time replaces cycles. Under `emulated.py`, CPU time is the number of instructions.

A gateway that sleeps between requests pays for its wake-up, which on a virtual machine can cost as much as the request itself;
the column of sleeps shows how often. `peers.py --light-node`, and `--bench`, which sends with `BINARY bench` instead of wrk,
leave the gateway less time to sleep.
"""
import argparse
import dataclasses
import os
import statistics
import sys

import admin_api
import counting
import load
import peers

# What others are held against, where it runs: the rival, and the least that is possible.
REFERENCES = ['nginx', 'relay']
REPEATS = 3
# Per connection and repeat; at least 2000 in all. Work that happens once a second is spread over so many.
REQUESTS_PER_CONNECTION = 20
REQUESTS_MIN = 2000


@dataclasses.dataclass
class Sample:
    """One run against one gateway; counts are per request."""
    run: load.Run
    cpu_ns: float
    sleeps: float
    user: float | None = None
    kernel: float | None = None
    cycles: float | None = None


def sample(peer, path, conns, options, with_perf):
    perf = counting.PerfCounters(peer.pid) if with_perf else None
    cpu, sleeps = counting.CpuTime(peer.pid), counting.Sleeps(peer.pid)
    run = send(peer, path, conns, options.seconds, options, perf.prefix if perf else ())
    cost = cpu.nanoseconds() / run.requests, sleeps.count() / run.requests
    if not perf:
        return Sample(run, *cost)
    return Sample(run, *cost, *(count / run.requests for count in perf.counts()))


def send(peer, path, conns, seconds, options, prefix=()):
    if options.bench:
        return load.bench(options.bench, peer.port, path, conns, seconds, prefix)
    return load.wrk(peer.port, path, conns, seconds, prefix)


def rounds(gateways, path, conns, options, with_perf):
    """Samples by gateway; the same index is the same round."""
    samples = {peer.name: [] for peer in gateways}
    for peer in gateways:
        send(peer, path, conns, 1, options)
    for number in range(options.rounds):
        for peer in gateways if number % 2 == 0 else reversed(gateways):
            samples[peer.name].append(sample(peer, path, conns, options, with_perf))
    return samples


def callgrind_instructions(twin, path, conns):
    """User-space instructions per request, of each repeat."""
    count = max(REQUESTS_MIN, conns * REQUESTS_PER_CONNECTION)
    counter = counting.Callgrind(twin)
    client = load.ExactClient(twin.port, [path], conns)
    # Opens the upstream connections and lets valgrind translate the code.
    client.run(count // 2)
    found = []
    for _ in range(REPEATS):
        counter.restart()
        client.run(count)
        found.append(counter.instructions() / count)
    client.close()
    return found


def median(values):
    return statistics.median(values)


def ratio(pairs):
    """The median of same-round ratios with its quartiles."""
    ratios = sorted(own / reference for own, reference in pairs)
    if len(ratios) < 2:
        return f'{ratios[0]:.2f}'
    low, _, high = statistics.quantiles(ratios, n=4, method='inclusive')
    return f'{median(ratios):.2f} ({low:.2f}-{high:.2f})'


def ratios(samples, references, quantity):
    """A column per reference: `quantity` as same-round ratios."""
    return [ratio([(quantity(own), quantity(ref)) for own, ref in zip(samples, reference)])
            for reference in references.values()]


def perf_columns(samples, references):
    user, kernel = (median(getattr(s, field) for s in samples) for field in ('user', 'kernel'))
    total = ratios(samples, references, lambda s: s.user + s.kernel)
    return [f'{user:,.0f}', f'{kernel:,.0f}', *total, *ratios(samples, references, lambda s: s.cycles)]


def callgrind_columns(twin, path, conns):
    if not twin:
        return ['no twin', 'not countable']
    found = callgrind_instructions(twin, path, conns)
    spread = (max(found) - min(found)) / median(found) * 100
    return [f'{median(found):,.0f} (±{spread / 2:.1f} %)', 'not countable']


def column_heads(references, with_perf, emulated):
    def against(quantity):
        return [f'{quantity} / {name}' for name in references]

    if emulated:
        return ['gateway', 'user + kernel instr', *against('instr'), 'bad']
    counted = ['user instr (callgrind)', 'kernel instr']
    if with_perf:
        counted = ['user instr', 'kernel instr', *against('instr'), *against('cycles')]
    return ['gateway', 'req/s', 'p99 ms', *counted, 'sleeps', 'CPU ns', *against('CPU time'), 'bad']


def print_table(gateways, twins, path, conns, options, with_perf):
    samples = rounds(gateways, path, conns, options, with_perf)
    references = {name: samples[name] for name in REFERENCES if name in samples}
    heads = column_heads(references, with_perf, options.emulated)
    print(f'\n`{path}`, {conns} connections, scenario {options.scenario}, {options.rounds} rounds of '
          f'{options.seconds} s\n\n| ' + ' | '.join(heads) + ' |\n|' + '---|' * len(heads))
    for peer in gateways:
        own = samples[peer.name]
        row = [peer.name]
        if not options.emulated:
            row += [f'{median(s.run.per_second for s in own):,.0f}', f'{median(s.run.p99_ms for s in own):.2f}']
            row += perf_columns(own, references) if with_perf else callgrind_columns(twins.get(peer.name), path, conns)
            row += [f'{median(s.sleeps for s in own):.2f}']
        row += [f'{median(s.cpu_ns for s in own):,.0f}', *ratios(own, references, lambda s: s.cpu_ns)]
        row += [str(sum(s.run.bad for s in own))]
        print('| ' + ' | '.join(row) + ' |', flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('dir')
    parser.add_argument('--path', default=','.join(admin_api.PATHS))
    parser.add_argument('--conns', default='1,16,128')
    parser.add_argument('--scenario', choices=admin_api.SCENARIOS, default='none')
    parser.add_argument('--rounds', type=int, default=6)
    parser.add_argument('--seconds', type=int, default=2)
    parser.add_argument('--only', help='names of gateways, with commas; default: all')
    parser.add_argument('--bench', metavar='BINARY', help='send with `tidegate bench` instead of wrk')
    parser.add_argument('--no-callgrind', action='store_true', help='leave the twins alone')
    parser.add_argument('--emulated', action='store_true', help='the clock counts instructions')
    options = parser.parse_args()
    started = peers.load(options.dir)
    # This client belongs beside wrk, away from the gateways.
    os.sched_setaffinity(0, {load.CLIENT_CPU})
    wanted = (options.only or ','.join(peers.GATEWAYS)).split(',')
    gateways = [peer for peer in started if peer.name in wanted and not peer.callgrind]
    twins = {} if options.no_callgrind else {peer.name: peer for peer in started if peer.callgrind}
    if not gateways:
        sys.exit(f'none of {", ".join(wanted)} runs in {options.dir}')
    node = next(peer for peer in started if peer.name == 'upstream')
    for peer in started:
        if peer.admin_port and peer.name in wanted:
            admin_api.put_scenario(peer, options.scenario, node.port)
    with_perf = counting.PerfCounters.are_available()
    if options.emulated:
        print('Counted by an emulated processor.')
    else:
        print('Counted by ' + ("the processor (perf)." if with_perf else 'callgrind and the scheduler: this machine '
              'counts neither kernel instructions nor cycles, and time on the CPU stands in for cycles.'))
    for path in options.path.split(','):
        for conns in map(int, options.conns.split(',')):
            print_table(gateways, twins, path, conns, options, with_perf)


if __name__ == '__main__':
    main()
