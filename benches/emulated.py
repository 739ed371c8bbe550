#!/usr/bin/env python3
"""Compares gateways on an emulated processor, to count what virtual machines often can't count: the instructions of user
space and kernel together.

    benches/emulated.py DIR [--tidegate BINARY] [--kernel VMLINUZ] [OPTION OF sidebyside.py ...]

QEMU emulates one x86-64 processor whose clock advances by a nanosecond per instruction (`-icount shift=0`). `peers.py` and
`sidebyside.py` run in it as usual, and the scheduler's nanoseconds of CPU time are instructions. Gateway, node and wrk share
the processor, a second of wrk has 1,000,000,000 instructions, and rates and latencies have no meaning. There are no caches
and no branch prediction, so cycles can't be measured this way.

DIR receives the guest's files. The default kernel is Debian's cloud kernel, downloaded by apt-get. Needs qemu-system-x86 and
busybox-static in addition to the requirements of `peers.py`.
"""
import argparse
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig

import peers

HERE = pathlib.Path(__file__).resolve().parent
KERNEL = 'linux-image-cloud-amd64'
PROGRAMS = ['busybox', 'python3', 'taskset', 'nginx', 'haproxy', 'wrk']
# The emulation is fifty times slower than the processor it runs on.
GUEST_SECONDS_MAX = 3600
INIT = """#!/bin/busybox sh
busybox mount -t proc proc /proc
busybox mount -t sysfs sys /sys
busybox mount -t devtmpfs dev /dev
busybox mount -t tmpfs tmp /tmp
busybox ifconfig lo up
ulimit -n 20000
export PATH=/bin:/usr/bin CARGO_TARGET_DIR=/target
/benches/peers.py /tmp/run && /benches/sidebyside.py /tmp/run --emulated {options}
busybox reboot -f
"""


def kernel_of_debian(folder):
    """The kernel's image, from the package that `KERNEL` stands for."""
    depends = subprocess.run(['apt-cache', 'depends', KERNEL], capture_output=True, text=True, check=True).stdout
    package = re.search(r'Depends: (linux-image-\S+)', depends).group(1)
    subprocess.run(['apt-get', 'download', package], cwd=folder, check=True, stdout=subprocess.DEVNULL)
    subprocess.run(['dpkg-deb', '-x', next(folder.glob(package + '_*.deb')), folder / 'kernel'], check=True)
    return next((folder / 'kernel/boot').glob('vmlinuz-*'))


class Guest:
    """The guest's files, in a folder."""

    def __init__(self, root):
        shutil.rmtree(root, ignore_errors=True)
        self.root = root
        for folder in ['proc', 'sys', 'dev', 'tmp', 'etc', 'var/log/nginx', 'var/lib/nginx']:
            (root / folder).mkdir(parents=True)
        (root / 'etc/passwd').write_text('root:x:0:0::/:\nnobody:x:65534:65534::/:\n')
        (root / 'etc/group').write_text('root:x:0:\nnogroup:x:65534:\n')

    def program(self, source, place):
        self.file(source, place)
        self.libraries_of(source)

    def python(self):
        library = pathlib.Path(sysconfig.get_path('stdlib'))
        unwanted = shutil.ignore_patterns('test', 'tests', '__pycache__', 'idlelib', '*-packages', 'config-*')
        shutil.copytree(library, self.root / str(library).lstrip('/'), ignore=unwanted)
        for module in (library / 'lib-dynload').glob('*.so'):
            self.libraries_of(module)

    def libraries_of(self, source):
        loads = subprocess.run(['ldd', source], capture_output=True, text=True).stdout
        for library in re.findall(r'(/\S+) \(0x', loads):
            self.file(library, library)

    def file(self, source, place):
        place = self.root / place.lstrip('/')
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source, place)

    def archive(self, path):
        """Writes all of it to `path`, as the kernel unpacks it at its start."""
        names = subprocess.run(['find', '.'], cwd=self.root, capture_output=True, check=True).stdout
        with open(path, 'wb') as output:
            subprocess.run(['busybox', 'cpio', '-o', '-H', 'newc'], cwd=self.root, input=names, stdout=output,
                           stderr=subprocess.DEVNULL, check=True)


def guest(folder, tidegate, options):
    """The archive of a guest that runs the comparison and ends."""
    files = Guest(folder / 'root')
    for name in PROGRAMS:
        path = shutil.which(name, path=os.environ['PATH'] + ':/usr/sbin')
        if not path:
            sys.exit(f'{name} is not installed')
        files.program(path, '/bin/' + name)
    files.python()
    files.file('/usr/bin/env', '/usr/bin/env')
    files.program(peers.built('relay'), '/target/relay/release/relay')
    files.program(tidegate, '/target/release/tidegate')
    subprocess.run(['strip', '--strip-debug', files.root / 'target/release/tidegate'], check=True)
    shutil.copytree(HERE, files.root / 'benches', ignore=shutil.ignore_patterns('__pycache__', 'target'))
    init = files.root / 'init'
    init.write_text(INIT.format(options=shlex.join(options)))
    init.chmod(0o755)
    archive = folder / 'guest.cpio'
    files.archive(archive)
    return archive


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('dir', type=pathlib.Path)
    parser.add_argument('--tidegate', metavar='BINARY')
    parser.add_argument('--kernel', metavar='VMLINUZ')
    arguments, options = parser.parse_known_args()
    folder = arguments.dir.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    kernel = arguments.kernel or kernel_of_debian(folder)
    archive = guest(folder, arguments.tidegate or peers.built_tidegate(), options)
    # Without `erms` the kernel copies eight bytes with each step of a `rep movs`, and not one: each counts as an instruction.
    command = ['qemu-system-x86_64', '-accel', 'tcg', '-icount', 'shift=0,sleep=off', '-cpu', 'max,-erms,-fsrm',
               '-smp', '1', '-m', '3G', '-nographic', '-no-reboot', '-nic', 'none', '-kernel', kernel,
               '-initrd', archive, '-append', 'console=ttyS0 quiet panic=-1 tsc=reliable']
    subprocess.run(command, stdin=subprocess.DEVNULL, timeout=GUEST_SECONDS_MAX, check=True)


if __name__ == '__main__':
    main()
