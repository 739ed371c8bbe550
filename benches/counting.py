"""Counters for the work of a process: the processor's, callgrind's, and CPU time.

- `PerfCounters`: instructions (user and kernel separately) and cycles, if the processor's counters are available.
- `Callgrind`: user-space instructions of a twin that runs under valgrind; it doesn't see the kernel.
- `Sleeps`: how often the process was idle.
- `CpuTime`: nanoseconds on a CPU, user and kernel together, according to the scheduler. It replaces cycles.
"""
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

import peers

EVENTS = ['instructions:u', 'instructions:k', 'cycles']


class PerfCounters:
    """The processor's counters over all threads of a process, while a command runs."""

    def __init__(self, pid):
        self.output = tempfile.NamedTemporaryFile('r', prefix='perf-')
        self.prefix = ['perf', 'stat', '-x,', '-o', self.output.name, '-e', ','.join(EVENTS), '-p', str(pid), '--']

    @staticmethod
    def are_available():
        """Whether this machine counts instructions: many virtual machines don't, and many kernels forbid it."""
        if not shutil.which('perf'):
            return False
        command = ['perf', 'stat', '-x,', '-e', ','.join(EVENTS), '--', 'true']
        output = subprocess.run(command, capture_output=True, text=True).stderr
        return all(event in counts_by_event(output) for event in EVENTS)

    def counts(self):
        """One count per event of `EVENTS`, once the command has ended."""
        text = pathlib.Path(self.output.name).read_text()
        counts = counts_by_event(text)
        if any(event not in counts for event in EVENTS):
            sys.exit(f'perf counted only some of {", ".join(EVENTS)}:\n{text}')
        return [counts[event] for event in EVENTS]


def counts_by_event(text):
    """What `perf stat -x,` writes: value, unit, event. An event that can't be counted has words for a value."""
    lines = [line.split(',') for line in text.splitlines()]
    return {line[2]: int(line[0]) for line in lines if len(line) > 2 and line[0].isdigit()}


class Callgrind:
    """The counters of a twin."""

    def __init__(self, peer):
        self.peer = peer
        self.files = pathlib.Path(peer.folder)
        self.command('instrumentation', 'on')

    def restart(self):
        """Begins to count anew."""
        self.command('zero')

    def instructions(self):
        """User-space instructions of all threads since `restart`."""
        for file in self.dumps():
            file.unlink()
        self.command('dump')
        found = [re.search(r'^(?:totals|summary): (\d+)', file.read_text(), re.MULTILINE) for file in self.dumps()]
        totals = [int(match.group(1)) for match in found if match]
        if len(totals) != 1:
            sys.exit(f'{self.peer.label}: callgrind wrote {len(totals)} dumps with totals, not one')
        return totals[0]

    def dumps(self):
        return list(self.files.glob(f'{self.peer.label}.callgrind.*'))

    def command(self, *words):
        command = ['vgdb', f'--vgdb-prefix={peers.vgdb_prefix(self.peer)}', f'--pid={self.peer.pid}', *words]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode != 0:
            sys.exit(f'{" ".join(command)}: {done.stdout}{done.stderr}')


class Sleeps:
    """How often the threads of a process have slept since this was made: a gateway that is saturated never does."""

    def __init__(self, pid):
        self.pid = pid
        self.before = self.total()

    def count(self):
        return self.total() - self.before

    def total(self):
        texts = [file.read_text() for file in pathlib.Path(f'/proc/{self.pid}/task').glob('*/status')]
        return sum(int(re.search(r'^voluntary_ctxt_switches:\s+(\d+)', text, re.MULTILINE).group(1)) for text in texts)


class CpuTime:
    """What the threads of a process have run since this was made."""

    def __init__(self, pid):
        self.pid = pid
        self.before = self.by_thread()

    def nanoseconds(self):
        """Threads that ended meanwhile are lost: gateways keep theirs."""
        return sum(time - self.before.get(thread, 0) for thread, time in self.by_thread().items())

    def by_thread(self):
        times = {}
        for file in pathlib.Path(f'/proc/{self.pid}/task').glob('*/schedstat'):
            try:
                # proc(5): time on the CPU, time runnable, time slices.
                times[file.parent.name] = int(file.read_text().split()[0])
            except (FileNotFoundError, ProcessLookupError):
                continue
        return times
