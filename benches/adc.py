#!/usr/bin/env python3
"""Tests the gateway's Admin API with APISIX's own declarative client, ADC (https://github.com/api7/adc).

    benches/adc.py ADC DIR [--routes 6000] [--tidegate BINARY] [--store embedded|etcd]

ADC is the command to execute: `adc`, or a bundle of it (`node adc.cjs`, in quotes). For each of ADC's backends `apisix` and
`apisix-standalone`, the script starts a gateway in DIR and runs the same steps: lint, validate, diff, sync, a second sync
without changes, dump, a sync of the dump, a sync with changes, and back again. In between it sends a document with an error,
which must be rejected and change nothing. The last step requests every route. Prints Markdown with the time of each step;
exits with 1 if a step fails.
"""
import argparse
import copy
import http.client
import http.server
import json
import os
import pathlib
import shlex
import socket
import subprocess
import sys
import threading
import time

KEY = 'the-key-of-this-trial-0123456789abcdef'
ROUTES_OF_A_SERVICE = 100


class Node(http.server.BaseHTTPRequestHandler):
    """Answers every request with its path."""
    protocol_version = 'HTTP/1.1'
    # Head and body leave together.
    wbufsize = 4096

    def do_GET(self):
        body = self.path.encode()
        self.send_response(200)
        self.send_header('Content-Length', str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


def free_port():
    with socket.socket() as listener:
        listener.bind(('127.0.0.1', 0))
        return listener.getsockname()[1]


def document(count, node, folder):
    """So many routes in services of a hundred, and one of most other kinds."""
    certificate, key = (folder / 'a.pem').read_text(), (folder / 'a.key').read_text()
    services = []
    for first in range(0, count, ROUTES_OF_A_SERVICE):
        routes = [{'name': f'route-{n}', 'uris': [f'/service/{first}/{n}'], 'methods': ['GET']}
                  for n in range(first, min(first + ROUTES_OF_A_SERVICE, count))]
        services.append({'name': f'service-{first}', 'routes': routes,
                         'upstream': {'nodes': [{'host': '127.0.0.1', 'port': node, 'weight': 100}]}})
    return {
        'services': services,
        'consumers': [{'username': f'consumer{n}', 'credentials': [
            {'name': 'key', 'type': 'key-auth', 'config': {'key': f'secret-of-{n}'}}]} for n in range(50)]
        # ADC deletes a consumer and then its credentials, which went with it, and stops at the 404: so with APISIX.
        + [{'username': 'without'}],
        'ssls': [{'snis': ['a.test'], 'certificates': [{'certificate': certificate, 'key': key}]}],
        'global_rules': {'request-id': {'include_in_response': True}},
        'plugin_metadata': {'http-logger': {'log_format': {'host': '$host'}}},
    }


def changed(whole):
    """Another document: a service less, a route more, some routes with other methods."""
    other = copy.deepcopy(whole)
    other['services'].pop()
    other['services'][0]['routes'].append({'name': 'one-more', 'uris': ['/one-more']})
    for route in other['services'][1]['routes']:
        route['methods'] = ['GET', 'POST']
    other['consumers'].pop()
    return other


def wrong(whole):
    other = copy.deepcopy(whole)
    other['services'][0]['routes'][0]['plugins'] = {'limit-count': {'count': -1, 'time_window': 60}}
    return other


class Trial:
    """A gateway, and ADC's commands against it."""

    def __init__(self, options, backend):
        self.options, self.backend, self.failed = options, backend, False
        self.folder = pathlib.Path(options.dir, backend).resolve()
        self.folder.mkdir(parents=True, exist_ok=True)
        self.port, self.admin = free_port(), free_port()
        config = {
            'apisix': {'node_listen': [{'ip': '127.0.0.1', 'port': self.port}], 'enable_control': False,
                       'ssl': {'enable': False}, 'status': {'ip': '127.0.0.1', 'port': free_port()}},
            'deployment': {'role': 'traditional', 'role_traditional': {'config_provider': self.provider()},
                           'admin': {'admin_listen': {'ip': '127.0.0.1', 'port': self.admin},
                                     'admin_key': [{'name': 'admin', 'key': KEY, 'role': 'admin'}]}},
            'plugin_attr': {'prometheus': {'enable_export_server': False}},
            'nginx_config': {'worker_processes': 1, 'error_log': 'error.log'}}
        if self.provider() == 'etcd':
            config['deployment']['etcd'] = {'host': [options.etcd], 'prefix': f'/adc-{os.getpid()}'}
            config['apisix']['data_encryption'] = {'enable_encrypt_fields': True, 'keyring': ['0123456789abcdef']}
        (self.folder / 'config.yaml').write_text(json.dumps(config))
        self.process = subprocess.Popen(
            [options.tidegate, 'start', '-c', str(self.folder / 'config.yaml'), '--data-dir', str(self.folder / 'data')],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        wait('the Admin API', lambda: connects(self.admin))

    def provider(self):
        return 'yaml' if self.backend == 'apisix-standalone' else self.options.store

    def adc(self, command, *arguments):
        """ADC's exit status, what it printed, and the seconds it took."""
        environment = dict(os.environ, ADC_SERVER=f'http://127.0.0.1:{self.admin}', ADC_TOKEN=KEY, ADC_BACKEND=self.backend)
        begin = time.monotonic()
        done = subprocess.run([*shlex.split(self.options.adc), command, *arguments], env=environment, cwd=self.folder,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=600, check=False)
        return done.returncode, done.stdout, time.monotonic() - begin

    def step(self, what, command, *arguments, fails=False):
        status, text, seconds = self.adc(command, *arguments)
        good = (status != 0) == fails
        self.report(what, good, f'{seconds:.1f} s')
        if not good:
            print(text[-3000:], file=sys.stderr)

    def report(self, what, good, detail):
        self.failed |= not good
        print(f'| {self.backend} | {what} | {"ok" if good else "FAILED"} | {detail} |', flush=True)

    def answers(self, what, whole):
        """Every route is asked for."""
        connection = http.client.HTTPConnection('127.0.0.1', self.port, timeout=10)
        missing = 0
        for service in whole['services']:
            for route in service['routes']:
                connection.request('GET', route['uris'][0])
                response = connection.getresponse()
                missing += response.read().decode() != route['uris'][0] or response.status != 200
        self.report(what, missing == 0, f'{missing} do not answer')

    def run(self, whole):
        files = {'whole': whole, 'changed': changed(whole), 'wrong': wrong(whole)}
        for name, content in files.items():
            (self.folder / f'{name}.json').write_text(json.dumps(content))
        self.step('lint', 'lint', '-f', 'whole.json')
        self.step('validate', 'validate', '-f', 'whole.json')
        self.step('validate a mistake: refused', 'validate', '-f', 'wrong.json', fails=True)
        self.step('diff', 'diff', '-f', 'whole.json')
        self.step('sync', 'sync', '-f', 'whole.json')
        self.answers('every route answers', whole)
        self.step('second sync: nothing changes', 'sync', '-f', 'whole.json')
        self.unchanged('diff: no difference', 'whole.json')
        self.step('dump', 'dump', '-o', 'dump.yaml')
        # The Admin API never shows private keys, so no dump has them.
        self.unchanged('diff with what was dumped: no difference', 'dump.yaml', 'ssl')
        self.step('sync a mistake: refused', 'sync', '-f', 'wrong.json', fails=True)
        self.answers('every route answers still', whole)
        self.step('sync with changes', 'sync', '-f', 'changed.json')
        self.answers('every route of these answers', files['changed'])
        self.step('roll back', 'sync', '-f', 'dump.yaml', '--exclude-resource-type', 'ssl')
        self.unchanged('diff: as in the beginning', 'whole.json')
        self.answers('every route answers again', whole)

    def unchanged(self, what, file, *without):
        """`diff` writes the differences to a file, an empty list where there are none."""
        if self.backend == 'apisix-standalone':
            # ADC takes the `modifiedIndex` that it writes into metadata itself for a difference: so with APISIX.
            without = (*without, 'plugin_metadata')
        without = [argument for kind in without for argument in ('--exclude-resource-type', kind)]
        (self.folder / 'diff.yaml').unlink(missing_ok=True)
        status, text, seconds = self.adc('diff', '-f', file, *without)
        written = self.folder / 'diff.yaml'
        difference = written.read_text().strip() if written.exists() else 'no diff.yaml'
        good = status == 0 and difference in ('[]', '')
        self.report(what, good, f'{seconds:.1f} s')
        if not good:
            print(text[-1000:], difference[:2000], file=sys.stderr)

    def end(self):
        self.process.terminate()
        self.process.wait()


def connects(port):
    with socket.socket() as probe:
        return probe.connect_ex(('127.0.0.1', port)) == 0


def wait(what, ready):
    deadline = time.monotonic() + 30
    while not ready():
        if time.monotonic() > deadline:
            raise SystemExit(f'{what} does not come up')
        time.sleep(0.05)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('adc')
    parser.add_argument('dir')
    parser.add_argument('--routes', type=int, default=6000)
    parser.add_argument('--tidegate', default='target/release/tidegate')
    parser.add_argument('--store', choices=['embedded', 'etcd'], default='embedded')
    parser.add_argument('--etcd', default='http://127.0.0.1:2379', help='where etcd is, for --store etcd')
    parser.add_argument('--backend', choices=['apisix', 'apisix-standalone'], action='append')
    options = parser.parse_args()
    options.tidegate = str(pathlib.Path(options.tidegate).resolve())
    folder = pathlib.Path(options.dir)
    folder.mkdir(parents=True, exist_ok=True)
    subprocess.run(['openssl', 'req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes', '-days', '2',
                    '-subj', '/CN=a.test', '-keyout', folder / 'a.key', '-out', folder / 'a.pem'],
                   check=True, stderr=subprocess.DEVNULL)
    node = http.server.ThreadingHTTPServer(('127.0.0.1', 0), Node)
    threading.Thread(target=node.serve_forever, daemon=True).start()
    whole = document(options.routes, node.server_port, folder)
    print('| backend | step | | |\n|---|---|---|---|')
    failed = False
    for backend in options.backend or ['apisix', 'apisix-standalone']:
        trial = Trial(options, backend)
        try:
            trial.run(whole)
        finally:
            trial.end()
        failed |= trial.failed
    raise SystemExit(1 if failed else 0)


if __name__ == '__main__':
    main()
