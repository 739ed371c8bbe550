#!/usr/bin/env python3
"""What an Admin PUT costs: user-space instructions of the whole gateway, under callgrind.

    benches/put.py DIR BINARY [BINARY ...] [--puts 200] [--routes 100] [--rounds 2]

For each binary in turn, a gateway with an embedded store and `--routes` routes gets `--puts` PUTs of one route over a
keep-alive connection; the count is that of all threads: reading, checking, storing, building and publishing the snapshot.
Prints Markdown.
"""
import argparse
import http.client
import json
import pathlib
import re
import shutil
import socket
import statistics
import subprocess
import time

KEY = '0123456789abcdef0123456789abcdef'


def free_port():
    with socket.socket() as listener:
        listener.bind(('127.0.0.1', 0))
        return listener.getsockname()[1]


class Gateway:
    """A gateway under callgrind."""

    def __init__(self, binary, folder):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        self.folder, self.port = folder, free_port()
        config = {'apisix': {'node_listen': [{'ip': '127.0.0.1', 'port': free_port()}], 'enable_control': False,
                             'status': {'ip': '127.0.0.1', 'port': free_port()}},
                  'deployment': {'admin': {'admin_listen': {'ip': '127.0.0.1', 'port': self.port},
                                           'admin_key': [{'name': 'admin', 'key': KEY, 'role': 'admin'}]}},
                  'plugin_attr': {'prometheus': {'enable_export_server': False}},
                  'nginx_config': {'worker_processes': 1, 'error_log': 'error.log'}}
        (folder / 'config.yaml').write_text(json.dumps(config))
        self.process = subprocess.Popen(
            ['valgrind', '--tool=callgrind', '--instr-atstart=no', f'--callgrind-out-file={folder}/callgrind.out',
             f'--vgdb-prefix={folder}/vgdb', binary, 'start', '-c', str(folder / 'config.yaml'), '--data-dir',
             str(folder / 'data')], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.connection = self.connect()

    def connect(self):
        deadline = time.monotonic() + 180
        while time.monotonic() < deadline and self.process.poll() is None:
            try:
                connection = http.client.HTTPConnection('127.0.0.1', self.port, timeout=60)
                connection.connect()
                return connection
            except OSError:
                time.sleep(0.2)
        raise SystemExit(f'the gateway does not start: {self.folder}/data/error.log')

    def put(self, id, n):
        route = {'uri': f'/route/{id}', 'desc': str(n), 'plugins': {'limit-count': {
            'count': 100, 'time_window': 60, 'rejected_code': 503, 'key': 'remote_addr'}},
            'upstream': {'type': 'roundrobin', 'nodes': {'127.0.0.1:1980': 1}}}
        self.connection.request('PUT', f'/apisix/admin/routes/{id}', json.dumps(route), {'X-API-KEY': KEY})
        response = self.connection.getresponse()
        body = response.read()
        if response.status not in (200, 201):
            raise SystemExit(f'{response.status}: {body}')

    def control(self, *words):
        done = subprocess.run(['vgdb', f'--vgdb-prefix={self.folder}/vgdb', f'--pid={self.process.pid}', *words],
                              capture_output=True, text=True)
        if done.returncode != 0:
            raise SystemExit(done.stdout + done.stderr)

    def instructions(self, puts):
        self.control('instrumentation', 'on')
        self.put('1', 'first')
        self.control('zero')
        for n in range(puts):
            self.put('1', n)
        self.control('dump')
        totals = [re.search(r'^(?:totals|summary): (\d+)', file.read_text(), re.MULTILINE)
                  for file in self.folder.glob('callgrind.out.*')]
        return sum(int(total.group(1)) for total in totals if total) / puts

    def stop(self):
        self.process.terminate()
        self.process.wait()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('folder', type=pathlib.Path)
    parser.add_argument('binaries', nargs='+')
    parser.add_argument('--puts', type=int, default=200)
    parser.add_argument('--routes', type=int, default=100)
    parser.add_argument('--rounds', type=int, default=2)
    args = parser.parse_args()
    counts = {binary: [] for binary in args.binaries}
    for round in range(args.rounds):
        for number, binary in enumerate(args.binaries):
            gateway = Gateway(binary, args.folder / f'{round}-{number}')
            for id in range(args.routes):
                gateway.put(str(id), 'filler')
            counts[binary].append(gateway.instructions(args.puts))
            gateway.stop()
    print('| binary | user instructions per PUT, median | range |\n|---|---|---|')
    for binary, found in counts.items():
        print(f'| {binary} | {statistics.median(found):,.0f} | {min(found):,.0f} to {max(found):,.0f} |')


if __name__ == '__main__':
    main()
