#!/usr/bin/env python3
"""Compares Tidegate with nginx for files over HTTPS: requests and handshakes per second of the server's CPU time, as ratios.

    benches/https.py DIR [--tidegate BINARY] [--rounds 7] [--seconds 2] [--conns 16] [--streams 8] [--key ec|rsa]
                     [--only CASES]

DIR receives configurations, certificate, files and logs. Three servers run on CPU 0 with one worker each, and only one of
them is busy at a time: nginx with the study's configuration, nginx with its best one (gzip_static, precompressed), and
Tidegate with the study's (`tidegate serve --nginx-conf`). The client is on CPU 1: wrk for requests, h2load for HTTP/2
requests (`h2-`), Python's OpenSSL for handshakes. All run alternately, forward and backward; ratios are computed within a
round. The last measurement is the latency of the compressed text at 80 % of Tidegate's peak (`steady`): an open loop, from
the intended start. Prints Markdown.

CPU time is that of all threads of the server according to the scheduler (`schedstat`), user and kernel together. It excludes
the CPU time of other programs on a shared machine, but includes their effects on caches.
"""
import argparse
import dataclasses
import gzip
import json
import os
import pathlib
import shutil
import signal
import socket
import ssl
import string
import subprocess
import sys

import counting
import load
import peers
from sidebyside import median, ratio

HERE = pathlib.Path(__file__).resolve().parent
PORTS = {'nginx-study': 8543, 'nginx-best': 8544, 'tidegate': 8545}
TEXT_BYTES, LARGE_BYTES = 53_000, 1 << 20
GZIP = ['-H', 'Accept-Encoding: gzip']
# What is measured, by HTTP/1.1 and by HTTP/2: path, wrk's and h2load's options, who Tidegate is held against with the aim.
REQUESTS = {
    'gzip': ('/text.txt', GZIP, {'nginx-study': 18.0, 'nginx-best': 1.5}),
    'plain': ('/text.txt', [], {'nginx-best': 1.3}),
    'large': ('/large.bin', [], {'nginx-best': 1.2}),
}
HTTP2 = {f'h2-{case}': asked for case, asked in REQUESTS.items()}
HANDSHAKES = {'full': {'nginx-best': 1.0}, 'resumed': {'nginx-best': 1.3}}


@dataclasses.dataclass
class Server:
    name: str
    port: int
    process: subprocess.Popen

    def url(self, path):
        return f'https://127.0.0.1:{self.port}{path}'


@dataclasses.dataclass
class Sample:
    """One run against one server."""
    count: int
    cpu_ns: float
    per_second: float = 0
    p99_ms: float = 0
    bad: int = 0

    @property
    def per_cpu_second(self):
        return self.count / self.cpu_ns * 1e9


def words():
    """Text that compresses as prose does: this repository's own."""
    pages = ['ARCHITECTURE.md', 'STYLE.md', 'README.md', 'CHANGELOG.md', 'CONTRIBUTING.md', 'docs/compatibility.md',
             'docs/performance.md']
    text = ''.join((HERE.parent / page).read_text() for page in pages).encode()
    return text[:TEXT_BYTES]


def prepare(folder, key):
    for name in ('site', 'precompressed'):
        (folder / name).mkdir(parents=True, exist_ok=True)
        (folder / name / 'text.txt').write_bytes(words())
        (folder / name / 'large.bin').write_bytes(os.urandom(LARGE_BYTES))
    # nginx's default level is 1, Tidegate's 6: that which others precompress with.
    (folder / 'precompressed/text.txt.gz').write_bytes(gzip.compress(words(), 6))
    kind = ['-newkey', 'rsa:2048'] if key == 'rsa' else ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256']
    subprocess.run(['openssl', 'req', '-x509', *kind, '-nodes', '-days', '30', '-subj', '/CN=localhost', '-addext',
                    'subjectAltName=DNS:localhost,IP:127.0.0.1', '-keyout', folder / 'server.key', '-out',
                    folder / 'server.crt'], check=True, capture_output=True)
    (folder / 'mime.types').write_text('types { text/html html; text/plain txt; text/css css; image/png png; }\n')


def write(folder, template, name):
    text = (HERE / 'configs' / template).read_text()
    path = folder / f'{name}.conf'
    path.write_text(string.Template(text).safe_substitute(port=PORTS[name], folder=folder))
    return path


def start(folder, name, command):
    log = open(folder / f'{name}.log', 'w')
    process = subprocess.Popen(['taskset', '-c', str(peers.GATEWAY_CPU), *map(str, command)], stdin=subprocess.DEVNULL,
                               stdout=log, stderr=log, cwd=folder)
    peers.wait_until(lambda: peers.listens(PORTS[name]) or process.poll() is not None, peers.START_SECONDS_MAX)
    if process.poll() is not None:
        sys.exit(f'{name} ended: {(folder / f"{name}.log").read_text()}')
    return Server(name, PORTS[name], process)


def start_all(folder, tidegate):
    def nginx(name, template):
        globals_ = f'daemon off; master_process off; pid {folder}/{name}.pid; error_log {folder}/{name}.err crit;'
        return start(folder, name, ['nginx', '-p', folder, '-c', write(folder, template, name), '-g', globals_])

    command = [tidegate, 'serve', '--nginx-conf', write(folder, 'https-study.conf', 'tidegate')]
    return [nginx('nginx-study', 'https-study.conf'), nginx('nginx-best', 'https-best.conf'),
            start(folder, 'tidegate', command)]


def requests(server, path, options, conns, seconds):
    cpu = counting.CpuTime(server.process.pid)
    run = load.wrk_result(subprocess.Popen(
        ['taskset', '-c', str(load.CLIENT_CPU), 'wrk', '-t1', f'-c{conns}', f'-d{seconds}s', '--latency', *options,
         server.url(path)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True))
    return Sample(run.requests, cpu.nanoseconds(), run.per_second, run.p99_ms, run.bad)


def streams(server, path, wanted, options, rates):
    """As many requests as the server answered before in the time, by `rates`; few of them at first."""
    count = max(int(rates.get(server.name, 0) * options.seconds), options.conns * options.streams)
    cpu = counting.CpuTime(server.process.pid)
    run = load.h2load(server.url(path), wanted, options.conns, options.streams, count)
    rates[server.name] = run.per_second
    return Sample(run.requests, cpu.nanoseconds(), run.per_second, run.p99_ms, run.bad)


def steady(server, tidegate, conns, seconds):
    """Requests per second at 80 % of the peak, and the p99 in milliseconds."""
    rate = int(requests(server, '/text.txt', GZIP, conns, seconds).per_second * 0.8)
    output = subprocess.run(
        ['taskset', '-c', str(load.CLIENT_CPU), tidegate, 'bench', server.url('/text.txt'), *GZIP, '--insecure', '--quiet',
         '--json', f'-c{conns}', f'-d{seconds}s', f'--rate={rate}'], check=True, capture_output=True, text=True).stdout
    return rate, json.loads(output)['latency_ms']['p99']


def context():
    made = ssl.create_default_context()
    made.check_hostname, made.verify_mode = False, ssl.CERT_NONE
    made.minimum_version = ssl.TLSVersion.TLSv1_3
    return made


def connect(server, client, session=None):
    plain = socket.create_connection(('127.0.0.1', server.port))
    return client.wrap_socket(plain, server_hostname='localhost', session=session)


def handshakes(server, resumed, count):
    """Connections that end when the handshake is done; a resumed one begins with the ticket of an earlier one."""
    client, session, reused = context(), None, 0
    if resumed:
        with connect(server, client) as first:
            first.sendall(b'GET /none HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n')
            while first.recv(65536):
                pass
            session = first.session
    cpu = counting.CpuTime(server.process.pid)
    for _ in range(count):
        with connect(server, client, session) as connection:
            reused += connection.session_reused
    if resumed != (reused == count):
        sys.exit(f'{server.name}: {reused} of {count} sessions were resumed')
    return Sample(count, cpu.nanoseconds())


def in_turns(servers, rounds, run):
    """Samples by server; the same index is the same round. One round before is not counted."""
    samples = {server.name: [] for server in servers}
    for number in range(rounds + 1):
        for server in servers if number % 2 == 0 else reversed(servers):
            sample = run(server)
            if number:
                samples[server.name].append(sample)
    return samples


def print_rows(case, samples, aims):
    own = samples['tidegate']
    for name, found in samples.items():
        against = '-'
        if name in aims:
            pairs = [(mine.per_cpu_second, theirs.per_cpu_second) for mine, theirs in zip(own, found)]
            against = f'{ratio(pairs)}, aim {aims[name]}'
        bad = sum(sample.bad for sample in found)
        print(f'| {case} | {name} | {median(s.per_cpu_second for s in found):,.0f} | '
              f'{median(s.cpu_ns / s.count for s in found) / 1000:,.1f} | {median(s.per_second for s in found):,.0f} | '
              f'{median(s.p99_ms for s in found):.2f} | {bad} | {against} |', flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('dir')
    parser.add_argument('--tidegate', metavar='BINARY', help='default: target/release/tidegate')
    parser.add_argument('--rounds', type=int, default=7)
    parser.add_argument('--seconds', type=int, default=2)
    parser.add_argument('--conns', type=int, default=16)
    parser.add_argument('--streams', type=int, default=8, help='requests under way on a connection, by HTTP/2')
    parser.add_argument('--handshakes', type=int, default=400, help='of one run')
    parser.add_argument('--key', choices=['ec', 'rsa'], default='ec', help="the certificate's: P-256 or RSA 2048")
    parser.add_argument('--only', default=','.join([*REQUESTS, *HTTP2, *HANDSHAKES, 'steady']), help='default: %(default)s')
    options = parser.parse_args()
    for tool in ['nginx', 'taskset', 'wrk', 'h2load', 'openssl']:
        if not shutil.which(tool):
            sys.exit(f'{tool} is not installed')
    folder = pathlib.Path(options.dir).resolve()
    prepare(folder, options.key)
    tidegate = options.tidegate or peers.built_tidegate()
    servers = start_all(folder, tidegate)
    os.sched_setaffinity(0, {load.CLIENT_CPU})
    try:
        print(f'{options.rounds} rounds of {options.seconds} s, {options.conns} connections, {options.streams} streams '
              f'on each by HTTP/2, {options.key} key, '
              f'{connect(servers[-1], context()).cipher()[0]}\n\n| case | server | per CPU second | CPU us each | per second |'
              ' p99 ms | bad | tidegate / it |\n|---|---|---|---|---|---|---|---|')
        cases = options.only.split(',')
        for case in [case for case in cases if case != 'steady']:
            if case in REQUESTS:
                path, wrk_options, aims = REQUESTS[case]
                run = lambda s: requests(s, path, wrk_options, options.conns, options.seconds)
            elif case in HTTP2:
                path, h2load_options, aims = HTTP2[case]
                rates = {}
                run = lambda s: streams(s, path, h2load_options, options, rates)
            else:
                aims = HANDSHAKES[case]
                run = lambda s: handshakes(s, case == 'resumed', options.handshakes)
            taking_part = [server for server in servers if server.name in [*aims, 'tidegate']]
            print_rows(case, in_turns(taking_part, options.rounds, run), aims)
        if 'steady' in cases:
            found = [steady(servers[-1], tidegate, options.conns, options.seconds) for _ in range(options.rounds)]
            print(f'\nAt {median(rate for rate, _ in found):,.0f} requests per second, 80 % of the peak: p99 '
                  f'{median(p99 for _, p99 in found):.2f} ms ({min(p for _, p in found):.2f}-{max(p for _, p in found):.2f})')
    finally:
        for server in servers:
            server.process.send_signal(signal.SIGTERM)
            server.process.wait()


if __name__ == '__main__':
    main()
