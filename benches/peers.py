#!/usr/bin/env python3
"""Starts the gateways to compare and the node behind them; stops exactly the processes that it started.

    benches/peers.py DIR [--callgrind] [--only NAMES] [--tidegate BINARY] [--light-node] [--access-log]
                         [--port NAME=PORT ...]
    benches/peers.py DIR --stop

DIR receives configurations, logs, and `peers.json`, with which the other scripts find the processes. Gateways run on CPU 0
with one worker each, the upstream and the load generator on CPU 1. With `--callgrind`, each gateway has a twin under
valgrind, 10000 ports higher, to count its instructions if the processor's counters are not available. The upstream is nginx
or, with `--light-node`, a program that uses less of CPU 1, so that a run saturates the gateways. Needs nginx and haproxy, and
valgrind for the twins. The relay and the light node are built from `benches/relay`.
"""
import argparse
import contextlib
import dataclasses
import json
import os
import pathlib
import resource
import secrets
import shutil
import signal
import socket
import string
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
GATEWAYS = ['nginx', 'haproxy', 'relay', 'tidegate']
PORTS = {'upstream': 1980, 'nginx': 8081, 'haproxy': 8082, 'relay': 8084, 'tidegate': 9080, 'admin': 9180,
         'metrics': 9091}
# Where there is one processor, they share it.
GATEWAY_CPU, OTHER_CPU = 0, min(1, os.cpu_count() - 1)
# Above all default ports, below the ephemeral ones (32768).
TWIN_PORTS_UP = 10_000
# A release binary listens within 0.1 s; under valgrind it takes seconds, and a store with 100,000 routes adds to it.
START_SECONDS_MAX = 120
STOP_SECONDS_MAX = 20


@dataclasses.dataclass
class Peer:
    """A process under comparison, or the upstream."""
    name: str
    port: int
    pid: int
    # Ticks since boot: tells the process from a later one with the same id.
    started: int
    folder: str
    callgrind: bool = False
    admin_port: int = 0
    admin_key: str = ''

    @property
    def label(self):
        return self.name + ('-callgrind' if self.callgrind else '')

    def is_running(self):
        return start_ticks(self.pid) == self.started

    def stop(self):
        """Ends the process, gently first."""
        for sign in (signal.SIGTERM, signal.SIGKILL):
            if not self.is_running():
                return
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, sign)
            wait_until(lambda: not self.is_running(), STOP_SECONDS_MAX)


class Starter:
    """Writes the configurations into a folder and starts processes there."""

    def __init__(self, folder, ports=None, tidegate=None, access_log=False, light_node=False):
        self.folder = pathlib.Path(folder).resolve()
        self.ports = {**PORTS, **(ports or {})}
        self.tidegate = tidegate
        self.access_log = access_log
        self.light_node = light_node
        www = self.folder / 'www'
        www.mkdir(parents=True, exist_ok=True)
        (www / 'k1').write_text('x' * 1024)
        (www / 'k64').write_text('x' * 65536)
        # Ten thousand connections are two descriptors each for some; what is inherited may be as low as 1024.
        hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))

    def upstream(self):
        port = self.ports['upstream']
        if self.light_node:
            return self.start('upstream', port, [built('node'), f'127.0.0.1:{port}'], OTHER_CPU)
        config = self.write('upstream.conf', 'upstream.conf')
        return self.start('upstream', port, ['nginx', '-p', str(self.folder), '-c', str(config)], OTHER_CPU)

    def gateway(self, name, callgrind=False):
        """Starts the gateway `name`, or its twin."""
        return getattr(self, 'start_' + name)(callgrind)

    def start_nginx(self, callgrind):
        label, port = self.place('nginx', callgrind)
        log = f'access_log {self.folder}/{label}.access.log combined buffer=16k;'
        log = log if self.access_log else 'access_log off;'
        config = self.write('nginx.conf', label + '.conf', name=label, port=port, access_log=log)
        return self.start('nginx', port, ['nginx', '-p', str(self.folder), '-c', str(config)], callgrind=callgrind)

    def start_haproxy(self, callgrind):
        label, port = self.place('haproxy', callgrind)
        # It refuses to start where two descriptors per connection and a few of its own are not granted.
        granted = resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 2 - 100
        config = self.write('haproxy.cfg', label + '.cfg', port=port, connections_max=min(granted, 12_000))
        return self.start('haproxy', port, ['haproxy', '-db', '-f', str(config)], callgrind=callgrind)

    def start_relay(self, callgrind):
        _, port = self.place('relay', callgrind)
        command = [built('relay'), f'127.0.0.1:{port}', f'127.0.0.1:{self.ports["upstream"]}']
        return self.start('relay', port, command, callgrind=callgrind)

    def start_tidegate(self, callgrind, data=None, cpus=GATEWAY_CPU):
        label, port = self.place('tidegate', callgrind)
        up = TWIN_PORTS_UP if callgrind else 0
        admin = {'admin_port': self.ports['admin'] + up, 'admin_key': secrets.token_hex(16)}
        config = self.write('tidegate.yaml', label + '.yaml', port=port, metrics_port=self.ports['metrics'] + up,
                            access_log='true' if self.access_log else 'false', **admin)
        data = data or self.folder / (label + '.data')
        command = [self.tidegate or built_tidegate(), 'start', '-c', str(config), '--data-dir', str(data)]
        return self.start('tidegate', port, command, cpus, callgrind, **admin)

    def place(self, name, callgrind):
        twin = ('-callgrind', TWIN_PORTS_UP) if callgrind else ('', 0)
        return name + twin[0], self.ports[name] + twin[1]

    def write(self, template, file, **values):
        text = string.Template((HERE / 'configs' / template).read_text())
        path = self.folder / file
        path.write_text(text.substitute(folder=self.folder, upstream_port=self.ports['upstream'], **values))
        path.chmod(0o600)
        return path

    def start(self, name, port, command, cpus=GATEWAY_CPU, callgrind=False, **more):
        """Starts `command` on `cpus` and waits until it listens, on its Admin API's port as well."""
        if listens(port):
            sys.exit(f'port {port}, meant for {name}, is in use: choose another with --port {name}=PORT')
        peer = Peer(name, port, 0, 0, str(self.folder), callgrind, **more)

        def is_ready():
            return listens(port) and (not peer.admin_port or listens(peer.admin_port))

        if callgrind:
            command = ['valgrind', '--tool=callgrind', '--instr-atstart=no', '--vgdb-prefix=' + vgdb_prefix(peer),
                       f'--callgrind-out-file={self.folder}/{peer.label}.callgrind', *command]
        log = self.folder / (peer.label + '.log')
        with log.open('w') as output:
            process = subprocess.Popen(['taskset', '-c', str(cpus), *command], stdin=subprocess.DEVNULL, stdout=output,
                                       stderr=output, start_new_session=True)
        peer.pid, peer.started = process.pid, start_ticks(process.pid)
        wait_until(lambda: is_ready() or process.poll() is not None, START_SECONDS_MAX)
        if process.poll() is not None or not is_ready():
            peer.stop()
            sys.exit(f'{peer.label} did not start; the end of {log}:\n{log.read_text()[-2000:]}')
        # The parent may leave before it; nobody waits for the process, and the exit code says nothing.
        process.returncode = 0
        return peer


def vgdb_prefix(peer):
    """Where valgrind puts the pipes over which a twin is commanded."""
    return f'{peer.folder}/{peer.label}.vgdb'


def load(folder):
    """The processes that were started in `folder`."""
    path = pathlib.Path(folder) / 'peers.json'
    if not path.exists():
        sys.exit(f'{path} is not there: start the gateways with benches/peers.py {folder}')
    peers = [Peer(**fields) for fields in json.loads(path.read_text())]
    for peer in peers:
        if not peer.is_running():
            sys.exit(f'{peer.label} (process {peer.pid}) has ended; see {peer.folder}/{peer.label}.log')
    return peers


def save(folder, peers):
    path = pathlib.Path(folder) / 'peers.json'
    path.touch(mode=0o600)
    path.write_text(json.dumps([dataclasses.asdict(peer) for peer in peers], indent=1))


def start_ticks(pid):
    """When the process started, in ticks since boot; `None` if it has ended."""
    try:
        # The name in parentheses may hold spaces. Fields 3 (state) and 22 (start time) of proc(5).
        fields = pathlib.Path(f'/proc/{pid}/stat').read_text().rsplit(')', 1)[1].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    if fields[0] == 'Z':
        try:
            os.waitpid(pid, os.WNOHANG)
        except ChildProcessError:
            pass
        return None
    return int(fields[19])


def listens(port):
    with socket.socket() as probe:
        return probe.connect_ex(('127.0.0.1', port)) == 0


def wait_until(condition, seconds_max):
    deadline = time.monotonic() + seconds_max
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.02)


def built(yardstick):
    """The binary of the relay or of the light node, built if need be; where there is no cargo, as it was built elsewhere."""
    target = pathlib.Path(os.environ.get('CARGO_TARGET_DIR', HERE.parent / 'target')) / 'relay'
    if shutil.which('cargo'):
        subprocess.run(['cargo', 'build', '--quiet', '--release', '--locked', '--manifest-path',
                        str(HERE / 'relay/Cargo.toml'), '--target-dir', str(target)], check=True)
    return str(target / 'release' / yardstick)


def built_tidegate():
    """The release binary of this checkout. It isn't built here: that takes minutes and belongs before a comparison."""
    path = pathlib.Path(os.environ.get('CARGO_TARGET_DIR', HERE.parent / 'target')) / 'release/tidegate'
    if not path.exists():
        sys.exit(f'{path} is not there: run `cargo build --release`, or name a binary with --tidegate')
    return str(path)


def port_choice(text):
    name, _, port = text.partition('=')
    if name not in PORTS or not port.isdigit():
        raise argparse.ArgumentTypeError(f'expected NAME=PORT with a name of {", ".join(PORTS)}')
    return name, int(port)


def add_options(parser):
    """The options with which gateways are started; other scripts that start some have them too."""
    parser.add_argument('--tidegate', metavar='BINARY', help='default: target/release/tidegate')
    parser.add_argument('--access-log', action='store_true', help='let nginx and tidegate write an access log')
    parser.add_argument('--port', action='append', type=port_choice, default=[], metavar='NAME=PORT',
                        help=f'default: {", ".join(f"{name}={port}" for name, port in PORTS.items())}')


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('dir')
    parser.add_argument('--stop', action='store_true', help='end what was started in DIR')
    parser.add_argument('--callgrind', action='store_true', help='start a twin of each gateway under callgrind')
    parser.add_argument('--only', default=','.join(GATEWAYS), help='default: %(default)s')
    parser.add_argument('--light-node', action='store_true', help='an upstream that costs next to nothing')
    add_options(parser)
    options = parser.parse_args()
    state = pathlib.Path(options.dir) / 'peers.json'
    if state.exists():
        for peer in [Peer(**fields) for fields in json.loads(state.read_text())]:
            peer.stop()
        state.unlink()
    if options.stop:
        return
    names = [name for name in GATEWAYS if name in options.only.split(',')]
    for tool in ['nginx', 'taskset'] + ['haproxy'] * ('haproxy' in names) + ['valgrind'] * options.callgrind:
        if not shutil.which(tool):
            sys.exit(f'{tool} is not installed')
    starter = Starter(options.dir, dict(options.port), options.tidegate, options.access_log, options.light_node)
    peers = []
    try:
        peers.append(starter.upstream())
        for callgrind in [False, True][:1 + options.callgrind]:
            for name in names:
                peers.append(starter.gateway(name, callgrind))
    except BaseException:
        for peer in peers:
            peer.stop()
        raise
    save(options.dir, peers)
    for peer in peers:
        print(f'{peer.label}={peer.port}:{peer.pid}')


if __name__ == '__main__':
    main()
