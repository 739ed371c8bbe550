#!/usr/bin/env python3
"""Measures idle clients: resident memory of a gateway with many keep-alive connections, each after one request.

    benches/idle.py DIR [--conns 10000] [--path /hello] [--only NAMES]

DIR is the folder in which `peers.py` started the gateways. Clients use several addresses of 127.0.0.0/8, so that neither the
ephemeral ports nor a limit per address run out. This process needs one open file per connection (`ulimit -n`). Prints
Markdown. The relay is excluded: it opens an upstream connection per client, which no gateway does.
"""
import argparse
import os
import pathlib
import re
import resource
import socket
import sys
import time

import admin_api
import load
import peers

CONNECTIONS_PER_ADDRESS = 5000
# Memory that is given back late would flatter; memory that is freed late would blame.
SETTLE_SECONDS = 2
ANSWER_SECONDS_MAX = 30


def resident_kib(pid):
    return int(re.search(r'VmRSS:\s+(\d+) kB', pathlib.Path(f'/proc/{pid}/status').read_text()).group(1))


def connect(port, number):
    """A connection from the address that is due."""
    connection = socket.socket()
    connection.settimeout(ANSWER_SECONDS_MAX)
    # Without it the kernel picks the port at bind, from a range shared by all destinations.
    connection.setsockopt(socket.IPPROTO_IP, getattr(socket, 'IP_BIND_ADDRESS_NO_PORT', 24), 1)
    connection.bind((f'127.0.1.{1 + number // CONNECTIONS_PER_ADDRESS}', 0))
    connection.connect(('127.0.0.1', port))
    return connection


def ask(connection, port, path):
    """One request with its answer of a few bytes; exits unless it is 200 and keeps the connection."""
    connection.sendall(f'GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n'.encode())
    answer = b''
    while b'\r\n\r\n' not in answer or not answer.split(b'\r\n\r\n', 1)[1]:
        data = connection.recv(65536)
        if not data:
            sys.exit('a connection was closed although it was to be kept alive')
        answer += data
    if not answer.startswith(b'HTTP/1.1 200') or b'connection: close' in answer.lower():
        sys.exit(f'expected 200 and keep-alive: {answer[:300]!r}')


def still_open(connections):
    """How many the gateway has not closed."""
    count = 0
    for connection in connections:
        connection.setblocking(False)
        try:
            count += connection.recv(1) != b''
        except BlockingIOError:
            count += 1
    return count


def measure(peer, options):
    """The table's row."""
    ask(connect(peer.port, 0), peer.port, options.path)
    time.sleep(SETTLE_SECONDS)
    before = resident_kib(peer.pid)
    connections = []
    for number in range(options.conns):
        connections.append(connect(peer.port, number))
        ask(connections[-1], peer.port, options.path)
    time.sleep(SETTLE_SECONDS)
    after = resident_kib(peer.pid)
    alive = still_open(connections)
    for connection in connections:
        connection.close()
    time.sleep(SETTLE_SECONDS)
    closed = resident_kib(peer.pid)
    growth = (after - before) / 1024
    return (f'| {peer.name} | {alive:,} | {before / 1024:.1f} | {after / 1024:.1f} | {growth:.1f} | '
            f'{(after - before) / options.conns:.2f} | {closed / 1024:.1f} |')


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('dir')
    parser.add_argument('--conns', type=int, default=10_000)
    parser.add_argument('--path', default='/hello')
    parser.add_argument('--only', default='nginx,haproxy,tidegate', help='default: %(default)s')
    options = parser.parse_args()
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    if hard < options.conns + 100:
        sys.exit(f'{options.conns} connections need more open files than the {hard} granted: raise `ulimit -Hn`')
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    os.sched_setaffinity(0, {load.CLIENT_CPU})
    started = peers.load(options.dir)
    node = next(peer for peer in started if peer.name == 'upstream')
    gateways = [peer for peer in started if not peer.callgrind and peer.name in options.only.split(',')]
    print('| gateway | open connections | RSS before, MiB | RSS with, MiB | growth, MiB | KiB a connection | '
          'RSS after closing, MiB |\n|---|---|---|---|---|---|---|')
    for peer in gateways:
        if peer.admin_port:
            admin_api.put_scenario(peer, 'none', node.port)
        print(measure(peer, options), flush=True)


if __name__ == '__main__':
    main()
