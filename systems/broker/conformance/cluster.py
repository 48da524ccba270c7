"""Brokers on free loopback ports, started by `riprap broker` and ended by their process ids."""

import os
import pathlib
import socket
import subprocess
import time

# A broker alone serves within a second; three elect a controller and register. Longer means that they never will.
READY_S = 30
# The time before a broker is killed; clients in a virtual machine have begun by then.
PEACE_S = 4
# How long a broker that was killed is away.
DOWN_S = 3
# A broker that is asked to stop hands its leaderships over and syncs.
STOP_S = 10


def free_ports(count):
    """Ports that nobody listens on. They are held until all are known, so that none is given twice."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for held in sockets:
            held.bind(("127.0.0.1", 0))
        return [held.getsockname()[1] for held in sockets]
    finally:
        for held in sockets:
            held.close()


class Cluster:
    """So many brokers, for as long as the `with` block lasts."""

    def __init__(self, riprap, folder, brokers, options=()):
        self.riprap, self.folder, self.size, self.options = riprap, pathlib.Path(folder), brokers, options
        self.processes = []

    def __enter__(self):
        ports = free_ports(self.size)
        self.addresses = [f"127.0.0.1:{port}" for port in ports]
        self.bootstrap = ",".join(self.addresses)
        peers = ",".join(f"{i}@{address}" for i, address in enumerate(self.addresses, 1))
        self.commands, self.homes = [], []
        try:
            for i, address in enumerate(self.addresses, 1):
                home = self.folder / f"{self.size}-brokers" / f"broker-{i}"
                home.mkdir(parents=True)
                command = [self.riprap, "broker", "--id", str(i), "--listen", address, "--dir", str(home / "data")]
                command += ["--peers", peers] if self.size > 1 else []
                command += self.options
                self.commands.append(command)
                self.homes.append(home)
                self.processes.append(self.start(len(self.processes)))
            self.wait_until_ready()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_):
        self.stop()

    def start(self, which):
        with open(self.homes[which] / "log", "ab") as log:
            return subprocess.Popen(self.commands[which], stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def restart_each(self):
        """Kills one broker after the other, each once the one before is back: as an upgrade by an impatient operator."""
        for which in range(self.size):
            # Clients find out in peace what has changed.
            time.sleep(PEACE_S)
            self.processes[which].kill()
            self.processes[which].wait()
            # Longer than a broker's session: another leads by then.
            time.sleep(DOWN_S)
            self.processes[which] = self.start(which)
            self.wait_until_ready()

    def wait_until_ready(self):
        """Until every broker answers Metadata with all of them; one that is not registered hangs up."""
        deadline = time.monotonic() + READY_S
        for process, address in zip(self.processes, self.addresses):
            while known_brokers(address) != self.size:
                if process.poll() is not None:
                    raise RuntimeError(f"broker {address} ended with {process.returncode}; see {self.folder}")
                if time.monotonic() > deadline:
                    raise RuntimeError(f"broker {address} does not serve after {READY_S} s; see {self.folder}")
                time.sleep(0.1)

    def stop(self):
        for process in self.processes:
            process.terminate()
        for process in self.processes:
            try:
                process.wait(STOP_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def dead(self):
        """Which brokers ended by themselves: none may, whatever clients send."""
        return [a for p, a in zip(self.processes, self.addresses) if p.poll() is not None]


def known_brokers(address):
    """How many brokers one of them knows of, by Metadata version 0 without topics; None if it does not answer."""
    host, port = address.rsplit(":", 1)
    # Size; key 3, version 0, correlation id 1, client id null; no topics.
    request = bytes.fromhex("0000000e 0003 0000 00000001 ffff 00000000".replace(" ", ""))
    try:
        with socket.create_connection((host, int(port)), timeout=2) as stream:
            stream.settimeout(2)
            stream.sendall(request)
            # Size and correlation id come first, then the number of brokers.
            head = b""
            while len(head) < 12:
                more = stream.recv(12 - len(head))
                if not more:
                    return None
                head += more
            return int.from_bytes(head[8:12], "big")
    except OSError:
        return None
