"""Load generators: wrk, `tidegate bench` and h2load for timings, and a client that sends an exact number of requests for counting."""
import collections
import dataclasses
import json
import re
import selectors
import socket
import subprocess
import sys
import tempfile

import peers

CLIENT_CPU = peers.OTHER_CPU
MILLISECONDS = {'us': 1e-3, 'ms': 1, 's': 1e3, 'm': 6e4}
# A twin that answers nothing for so long will not answer at all.
ANSWER_SECONDS_MAX = 60
CONTENT_LENGTH = re.compile(rb'\r\ncontent-length: *(\d+)\r\n', re.IGNORECASE)
CONNECTION_CLOSE = re.compile(rb'\r\nconnection: *close\r\n', re.IGNORECASE)


@dataclasses.dataclass
class Run:
    """What wrk or h2load reports of one run."""
    requests: int
    per_second: float
    p99_ms: float
    # Answers other than 2xx and 3xx, and errors of sockets.
    bad: int


def wrk(port, path, conns, seconds, prefix=()):
    """Runs wrk on its CPU; `prefix` is a command that runs it."""
    return wrk_result(wrk_start(port, path, conns, seconds, prefix))


def wrk_start(port, path, conns, seconds, prefix=()):
    command = [*prefix, 'taskset', '-c', str(CLIENT_CPU), 'wrk', '-t1', f'-c{conns}', f'-d{seconds}s', '--latency',
               f'http://127.0.0.1:{port}{path}']
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def wrk_result(process):
    """Waits for a run that `wrk_start` began."""
    output, errors = process.communicate()
    requests = re.search(r'(\d+) requests in', output)
    if not requests:
        sys.exit(f'wrk failed: {output}{errors}')
    p99, unit = re.search(r'99%\s+([\d.]+)(us|ms|s|m)', output).groups()
    bad = re.findall(r'Non-2xx or 3xx responses: (\d+)', output)
    bad += re.findall(r'(?:connect|read|write|timeout) (\d+)', output)
    return Run(int(requests.group(1)), float(re.search(r'Requests/sec:\s+([\d.]+)', output).group(1)),
                  float(p99) * MILLISECONDS[unit], sum(map(int, bad)))


def bench(binary, port, path, conns, seconds, prefix=()):
    """Runs `tidegate bench` on the same CPU, of which it takes less than wrk."""
    command = [*prefix, binary, 'bench', f'http://127.0.0.1:{port}{path}', '-t1', f'-c{conns}', f'-d{seconds}s',
               '--cpus', str(CLIENT_CPU), '--quiet', '--json']
    done = subprocess.run(command, capture_output=True, text=True)
    if not done.stdout:
        sys.exit(f'{binary} bench failed: {done.stderr}')
    run = json.loads(done.stdout)['series'][0]['runs'][0]
    return Run(run['requests'], run['requests_per_second'], run['service_time']['latency_ms']['p99'],
               sum(run['errors'].values()))


def h2load(url, options, conns, streams, count):
    """Runs h2load on its CPU: `count` requests by HTTP/2 over `conns` connections, so many of them under way on each.

    It is not told a time: h2load 1.52 doesn't always notice that it is over.
    """
    with tempfile.NamedTemporaryFile('r', prefix='h2load-') as log:
        command = ['taskset', '-c', str(CLIENT_CPU), 'h2load', '-t1', f'-c{conns}', f'-m{streams}', f'-n{count}',
                   f'--log-file={log.name}', *options, url]
        output = subprocess.run(command, capture_output=True, text=True).stdout
        # Start, status and microseconds until the end of the response.
        answers = [line.split() for line in log]
    rate = re.search(r'finished in .*, ([\d.]+) req/s', output)
    if 'Application protocol: h2' not in output or not rate or len(answers) != count:
        sys.exit(f'h2load failed: {output}')
    times = sorted(int(time) for _, _, time in answers)
    bad = sum(status != '200' for _, status, _ in answers)
    return Run(count, float(rate.group(1)), times[count * 99 // 100] / 1e3, bad)


class ExactClient:
    """Keep-alive connections that carry an exact number of requests, one outstanding on each.

    wrk tells requests from connections only roughly: what runs in its last moment is counted by the gateway and not by
    wrk, and the setting up of 128 connections is spread over few requests where the gateway runs fifty times slower,
    under valgrind. Here connections exist before the counting begins, and it ends with the last answer.
    """

    def __init__(self, port, paths, conns):
        self.requests = [f'GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n'.encode() for path in paths]
        self.port = port
        self.selector = selectors.DefaultSelector()
        self.idle = collections.deque(self.connect() for _ in range(conns))
        self.sent = 0

    def run(self, count):
        """Sends `count` requests and takes their answers; each must be 200."""
        to_send, to_receive = count, count
        while to_send and self.idle:
            self.send(self.idle.popleft())
            to_send -= 1
        while to_receive:
            ready = self.selector.select(ANSWER_SECONDS_MAX)
            if not ready:
                sys.exit(f'{to_receive} of {count} requests were not answered in {ANSWER_SECONDS_MAX} s')
            for key, _ in ready:
                if not self.receive(key.fileobj, key.data):
                    continue
                to_receive -= 1
                connection = self.kept_alive(key.fileobj, key.data)
                if to_send:
                    self.send(connection)
                    to_send -= 1
                else:
                    self.idle.append(connection)

    def close(self):
        for key in list(self.selector.get_map().values()):
            key.fileobj.close()
        self.selector.close()

    def connect(self):
        connection = socket.create_connection(('127.0.0.1', self.port), timeout=ANSWER_SECONDS_MAX)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.setblocking(False)
        self.selector.register(connection, selectors.EVENT_READ, bytearray())
        return connection

    def kept_alive(self, connection, answer):
        """The connection for the next request, after a complete answer.

        A gateway may limit the requests per connection, as nginx does to 1000 where nothing else is configured. The
        new connection is counted with the requests: it is what the gateway costs.
        """
        closes = CONNECTION_CLOSE.search(answer, 0, answer.find(b'\r\n\r\n') + 2)
        answer.clear()
        if not closes:
            return connection
        self.selector.unregister(connection)
        connection.close()
        return self.connect()

    def send(self, connection):
        # A hundred bytes into an empty socket buffer: never short.
        connection.send(self.requests[self.sent % len(self.requests)])
        self.sent += 1

    def receive(self, connection, buffer):
        """Whether the answer is complete."""
        data = connection.recv(1 << 20)
        if not data:
            sys.exit('a connection was closed although it was to be kept alive')
        buffer += data
        end = buffer.find(b'\r\n\r\n')
        if end < 0:
            return False
        length = CONTENT_LENGTH.search(buffer, 0, end + 2)
        if not buffer.startswith(b'HTTP/1.1 200') or not length:
            sys.exit(f'expected 200 with a Content-Length: {bytes(buffer[:end])!r}')
        return len(buffer) >= end + 4 + int(length.group(1))
