#!/usr/bin/env python3
"""Measures open WebSocket connections: resident memory of `tidegate` with many of them, each after one message.

    benches/websockets.py BINARY [--conns 10000] [--workers 1]

Starts the gateway with its route in a new folder, and a server that answers each upgrade and echoes each message. Clients use
several addresses of 127.0.0.0/8, and nodes several ports, so that neither run out. This process and the gateway need two open
files per connection each (`ulimit -Hn`). If fewer are allowed, use for example `--conns 9900`; the last column extrapolates to
10,000. Prints Markdown. Fails if a connection was lost, if the growth is above 10 KB per connection, or if 10,000 connections
need more than 100 MB.
"""
import argparse
import asyncio
import json
import pathlib
import re
import resource
import socket
import subprocess
import sys
import tempfile
import urllib.request

CONNECTIONS_PER_ADDRESS = 5000
BYTES_MAX = 10_000
TOLD_CONNECTIONS = 10_000
RESIDENT_MAX = 100e6
SETTLE_SECONDS = 2
ASK = (b'GET /chat HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n'
       b'Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n')
SWITCH = b'HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n'
# A masked text frame of one byte, the mask all zeros.
MESSAGE = b'\x81\x81\0\0\0\0x'
KEY = 'websocket-bench-key'


def free_ports(count):
    sockets = [socket.create_server(('127.0.0.1', 0)) for _ in range(count)]
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


def resident(pid):
    status = pathlib.Path(f'/proc/{pid}/status').read_text()
    return int(re.search(r'VmRSS:\s+(\d+) kB', status).group(1)) * 1024


async def serve(reader, writer):
    """An upgrade, then every byte back."""
    try:
        await reader.readuntil(b'\r\n\r\n')
        writer.write(SWITCH)
        while data := await reader.read(64):
            writer.write(data)
    except (asyncio.CancelledError, ConnectionError):
        # The end of the measurement, which nobody need hear of.
        pass
    writer.close()


async def exchange(reader, writer):
    writer.write(MESSAGE)
    if await reader.readexactly(len(MESSAGE)) != MESSAGE:
        sys.exit('a message came back changed')


async def connect(port, number):
    source = f'127.0.1.{1 + number // CONNECTIONS_PER_ADDRESS}'
    reader, writer = await asyncio.open_connection('127.0.0.1', port, local_addr=(source, 0), limit=4096)
    writer.write(ASK)
    head = await reader.readuntil(b'\r\n\r\n')
    if not head.startswith(b'HTTP/1.1 101'):
        sys.exit(f'expected 101: {head!r}')
    await exchange(reader, writer)
    return reader, writer


def start(options, folder, nodes):
    """The gateway, ready, with its port."""
    port, admin, status = free_ports(3)
    config = {
        'apisix': {'node_listen': [{'ip': '127.0.0.1', 'port': port}], 'ssl': {'enable': False}, 'enable_control': False,
                   'status': {'ip': '127.0.0.1', 'port': status}},
        'nginx_config': {'worker_processes': options.workers, 'event': {'worker_connections': options.conns + 100}},
        'deployment': {'admin': {'admin_listen': {'ip': '127.0.0.1', 'port': admin},
                                 'admin_key': [{'name': 'admin', 'key': KEY, 'role': 'admin'}]}},
        'plugin_attr': {'prometheus': {'enable_export_server': False}},
    }
    (folder / 'config.yaml').write_text(json.dumps(config))
    command = [options.binary, 'start', '-c', str(folder / 'config.yaml'), '--data-dir', str(folder)]
    gateway = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    for line in gateway.stderr:
        if 'is ready' in line:
            break
    else:
        sys.exit('the gateway did not start')
    route = {'uri': '/chat', 'enable_websocket': True,
             'upstream': {'type': 'roundrobin', 'nodes': {f'127.0.0.1:{node}': 1 for node in nodes}}}
    request = urllib.request.Request(f'http://127.0.0.1:{admin}/apisix/admin/routes/1', json.dumps(route).encode(),
                                     {'X-API-KEY': KEY}, method='PUT')
    urllib.request.urlopen(request).read()
    return gateway, port


async def measure(options, folder):
    servers = [await asyncio.start_server(serve, '127.0.0.1', 0, backlog=4096, limit=4096) for _ in range(4)]
    gateway, port = start(options, folder, [server.sockets[0].getsockname()[1] for server in servers])
    try:
        await asyncio.sleep(SETTLE_SECONDS)
        (await connect(port, 0))[1].close()
        before = resident(gateway.pid)
        held = []
        for number in range(options.conns):
            held.append(await connect(port, number))
        await asyncio.sleep(SETTLE_SECONDS)
        after = resident(gateway.pid)
        # All of them are still of use.
        for reader, writer in held:
            await exchange(reader, writer)
        each = (after - before) / options.conns
        told = before + TOLD_CONNECTIONS * each
        print(f'| WebSocket connections | RSS before, MB | RSS with, MB | bytes a connection | MB with {TOLD_CONNECTIONS:,} |')
        print('|---|---|---|---|---|')
        print(f'| {len(held):,} | {before / 1e6:.1f} | {after / 1e6:.1f} | {each:.0f} | {told / 1e6:.1f} |')
        return each, told
    finally:
        gateway.kill()
        gateway.wait()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('binary')
    parser.add_argument('--conns', type=int, default=10_000)
    parser.add_argument('--workers', type=int, default=1)
    options = parser.parse_args()
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    if hard < 2 * options.conns + 100:
        sys.exit(f'{options.conns} connections need more open files than the {hard} granted: raise `ulimit -Hn`, or ask for '
                 f'fewer with `--conns`')
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    with tempfile.TemporaryDirectory(prefix='websockets-') as folder:
        each, told = asyncio.run(measure(options, pathlib.Path(folder)))
    if each > BYTES_MAX:
        sys.exit(f'more than {BYTES_MAX} bytes a connection')
    if told > RESIDENT_MAX:
        sys.exit(f'more than {RESIDENT_MAX / 1e6:.0f} MB with {TOLD_CONNECTIONS:,} connections')


if __name__ == '__main__':
    main()
