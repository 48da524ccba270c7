"""The two systems that are compared, each as a cluster on free loopback ports that lasts as long as a `with` block."""

import os
import pathlib
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "conformance"))
from cluster import Cluster, free_ports

# How often data is synced where the policy is `interval`. Units: milliseconds.
FLUSH_MS = 1000
# What Kafka's own start script gives its virtual machine.
JVM = [
    "-Xmx1G", "-Xms1G", "-server", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20", "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent", "-Djava.awt.headless=true", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
]  # fmt: skip


class Riprap(Cluster):
    """Bundled brokers."""

    name = "riprap"

    def __init__(self, program, folder, brokers, fsync):
        policy = [f"--set=fsync={fsync}", f"--set=flush.interval.ms={FLUSH_MS}"]
        super().__init__(program, folder, brokers, policy)


class Kafka(Cluster):
    """Apache Kafka's brokers, each a voter of the metadata quorum too, as the bundled ones are."""

    name = "kafka"

    def __init__(self, class_path, folder, brokers, fsync):
        super().__init__("kafka", folder, brokers)
        self.class_path, self.fsync = class_path, fsync

    def __enter__(self):
        ports = free_ports(2 * self.size)
        self.addresses = [f"127.0.0.1:{port}" for port in ports[: self.size]]
        self.bootstrap = ",".join(self.addresses)
        voters = [f"{i}@127.0.0.1:{port}" for i, port in enumerate(ports[self.size :], 1)]
        self.commands, self.homes = [], []
        try:
            for i, address in enumerate(self.addresses, 1):
                home = self.folder / f"{self.size}-kafka" / f"broker-{i}"
                home.mkdir(parents=True)
                properties = home / "server.properties"
                properties.write_text(self.properties(i, address, voters, home))
                java = ["java", *JVM, "-cp", self.class_path]
                # Any 16 bytes in base64: a cluster's name.
                format_it = ["kafka.tools.StorageTool", "format", "-t", "cmlwcmFwc3BlZWQwMDAwMA", "-c", str(properties)]
                subprocess.run([*java, *format_it], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
                self.commands.append([*java, "kafka.Kafka", str(properties)])
                self.homes.append(home)
                self.processes.append(self.start(len(self.processes)))
            self.wait_until_ready()
        except BaseException:
            self.stop()
            raise
        return self

    def properties(self, which, address, voters, home):
        flush = {
            "always": "log.flush.interval.messages=1",
            "interval": f"log.flush.interval.ms={FLUSH_MS}\nlog.flush.scheduler.interval.ms={FLUSH_MS}",
            "never": "",
        }[self.fsync]
        replicas = min(self.size, 3)
        return f"""
process.roles=broker,controller
node.id={which}
controller.quorum.voters={','.join(voters)}
controller.listener.names=CONTROLLER
listeners=PLAINTEXT://{address},CONTROLLER://{voters[which - 1].split('@')[1]}
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
log.dirs={home / 'data'}
min.insync.replicas={min(2, replicas)}
offsets.topic.replication.factor={replicas}
transaction.state.log.replication.factor={replicas}
{flush}
"""


def cpu_s(cluster):
    """What the brokers have had of the processors, all together."""
    tick_hz = os.sysconf("SC_CLK_TCK")
    ticks = 0
    for process in cluster.processes:
        # The name in brackets may hold blanks; user and system time are the 12th and 13th field behind it.
        fields = pathlib.Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks / tick_hz


def rss_mb(cluster):
    """The largest broker's memory that is in use. Units: 10^6 bytes."""
    pages = [int(pathlib.Path(f"/proc/{p.pid}/statm").read_text().split()[1]) for p in cluster.processes]
    return max(pages) * os.sysconf("SC_PAGE_SIZE") / 1e6
