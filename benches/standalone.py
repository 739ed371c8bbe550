#!/usr/bin/env python3
"""Measures standalone files with many routes: the time of a start, of `config validate`, and the memory of both.

    benches/standalone.py DIR [--routes 1000,10000,100000] [--tidegate BINARY] [--repeats 3]

Writes `apisix.yaml` and `apisix.json` with plain routes (an id, a path, an upstream with one node) into DIR, starts a data
plane with each, and measures the time from the command until the last route answers. The memory is the peak of the process
(`VmHWM`), and its size 2 s later. Prints Markdown.
"""
import argparse
import http.client
import http.server
import json
import os
import pathlib
import resource
import socket
import statistics
import subprocess
import threading
import time


class Node(http.server.BaseHTTPRequestHandler):
    """Answers every request."""

    def do_GET(self):
        self.send_response(200)
        self.send_header('Content-Length', '0')
        self.end_headers()

    def log_message(self, *_):
        pass


def free_port():
    with socket.socket() as listener:
        listener.bind(('127.0.0.1', 0))
        return listener.getsockname()[1]


def document(count, node, form):
    routes = [{'id': f'r{n}', 'uri': f'/service/{n % 100:02}/item/{n:06}',
               'upstream': {'type': 'roundrobin', 'nodes': {f'127.0.0.1:{node}': 1}}} for n in range(count)]
    if form == 'json':
        return json.dumps({'routes': routes})
    lines = ['routes:']
    for route in routes:
        lines += [f'- id: {route["id"]}', f'  uri: {route["uri"]}', '  upstream:', '    type: roundrobin',
                  '    nodes:', f'      "127.0.0.1:{node}": 1']
    return '\n'.join(lines) + '\n#END\n'


def answers(port, path):
    try:
        connection = http.client.HTTPConnection('127.0.0.1', port, timeout=5)
        connection.request('GET', path)
        return connection.getresponse().status == 200
    except OSError:
        return False


def memory(pid, name):
    for line in pathlib.Path(f'/proc/{pid}/status').read_text().splitlines():
        if line.startswith(name):
            return int(line.split()[1]) / 1024
    return 0


def start(binary, folder, form, count):
    port = free_port()
    config = {'apisix': {'node_listen': [{'ip': '127.0.0.1', 'port': port}], 'enable_control': False,
                         'status': {'ip': '127.0.0.1', 'port': free_port()}},
              'deployment': {'role': 'data_plane', 'role_data_plane': {'config_provider': form}},
              'plugin_attr': {'prometheus': {'enable_export_server': False}},
              'nginx_config': {'worker_processes': 1, 'error_log': 'error.log'}}
    (folder / 'config.yaml').write_text(json.dumps(config))
    command = [binary, 'start', '-c', str(folder / 'config.yaml'), '--data-dir', str(folder / 'data')]
    begin = time.monotonic()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    last = f'/service/{(count - 1) % 100:02}/item/{count - 1:06}'
    while not answers(port, last):
        if process.poll() is not None or time.monotonic() - begin > 120:
            raise SystemExit(f'the gateway does not serve {count} routes: {folder}/data/error.log')
        time.sleep(0.01)
    seconds = time.monotonic() - begin
    peak = memory(process.pid, 'VmHWM')
    time.sleep(2)
    after = memory(process.pid, 'VmRSS')
    process.terminate()
    process.wait()
    return seconds, peak, after


def validate(binary, folder, form):
    begin = time.monotonic()
    command = [binary, 'config', 'validate', '-c', str(folder / 'config.yaml'), str(folder / f'apisix.{form}')]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    if status != 0:
        raise SystemExit('config validate refuses the file')
    return time.monotonic() - begin, usage.ru_maxrss / 1024


def main():
    options = argparse.ArgumentParser()
    options.add_argument('dir', type=pathlib.Path)
    options.add_argument('--routes', default='1000,10000,100000')
    options.add_argument('--tidegate', default='target/release/tidegate')
    options.add_argument('--repeats', type=int, default=3)
    options = options.parse_args()
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), Node)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print('| routes | file | MiB | start in s | peak, MiB | later, MiB | validate in s | peak, MiB |')
    print('|---|---|---|---|---|---|---|---|')
    for count in [int(count) for count in options.routes.split(',')]:
        for form in ('yaml', 'json'):
            folder = options.dir / f'{form}-{count}'
            folder.mkdir(parents=True, exist_ok=True)
            text = document(count, server.server_port, form)
            (folder / f'apisix.{form}').write_text(text)
            starts = [start(options.tidegate, folder, form, count) for _ in range(options.repeats)]
            seconds = [run[0] for run in starts]
            checked = validate(options.tidegate, folder, form)
            print(f'| {count:,} | {form} | {len(text) / 2**20:.1f} | {statistics.median(seconds):.2f} '
                  f'({min(seconds):.2f}-{max(seconds):.2f}) | {max(run[1] for run in starts):.0f} '
                  f'| {max(run[2] for run in starts):.0f} | {checked[0]:.2f} | {checked[1]:.0f} |', flush=True)


main()
