"""A client for the Admin API and the routes that the comparisons create."""
import http.client
import json
import sys
import time

PATHS = ['/hello', '/k1', '/k64']
SCENARIOS = {
    'none': {},
    'two-plugins': {
        'limit-count': {'count': 2_000_000_000_000, 'time_window': 60, 'rejected_code': 503, 'key': 'remote_addr'},
        'prometheus': {},
    },
    # The node is asked before each request whether it may pass.
    'forward-auth': {
        'forward-auth': {'uri': 'http://127.0.0.1:NODE_PORT/auth', 'keepalive_pool': 320, 'keepalive_timeout': 3_600_000},
    },
}
EFFECT_SECONDS_MAX = 30


class AdminApi:
    """A keep-alive connection to a gateway's Admin API."""

    def __init__(self, peer):
        self.connection = http.client.HTTPConnection('127.0.0.1', peer.admin_port, timeout=EFFECT_SECONDS_MAX)
        self.headers = {'X-API-KEY': peer.admin_key, 'Content-Type': 'application/json'}

    def put_route(self, id, uri, node_port, plugins=None):
        """Creates or replaces a route to the node at `node_port`."""
        upstream = {'type': 'roundrobin', 'nodes': {f'127.0.0.1:{node_port}': 1}}
        route = {'uri': uri, 'plugins': plugins or {}, 'upstream': upstream}
        self.connection.request('PUT', f'/apisix/admin/routes/{id}', json.dumps(route), self.headers)
        response = self.connection.getresponse()
        body = response.read()
        if response.status not in (200, 201):
            sys.exit(f'PUT of route {id} was answered {response.status}: {body.decode(errors="replace")}')


class Prober:
    """A keep-alive connection to a gateway's data port."""

    def __init__(self, port):
        self.connection = http.client.HTTPConnection('127.0.0.1', port, timeout=EFFECT_SECONDS_MAX)

    def status(self, path):
        self.connection.request('GET', path)
        response = self.connection.getresponse()
        response.read()
        return response.status

    def wait_for(self, path):
        """Asks, without a pause, until the answer is 200."""
        deadline = time.monotonic() + EFFECT_SECONDS_MAX
        while (status := self.status(path)) != 200:
            if time.monotonic() > deadline:
                sys.exit(f'{path} is answered {status} even {EFFECT_SECONDS_MAX} s after its route was put')


def put_scenario(peer, name, node_port):
    """Gives the gateway one route per body size, all with the plugins of the scenario `name`."""
    api = AdminApi(peer)
    plugins = json.loads(json.dumps(SCENARIOS[name]).replace('NODE_PORT', str(node_port)))
    for id, path in enumerate(PATHS, 1):
        api.put_route(id, path, node_port, plugins)
    prober = Prober(peer.port)
    for path in PATHS:
        prober.wait_for(path)
    # The last change could be seen by a request and yet not be the one just written, where routes were there before.
    time.sleep(1)
