"""What the programs of this folder share: Kafka's jars, its tools, the bundled program."""

import os
import pathlib
import shutil
import subprocess

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[2]
CACHE = pathlib.Path(os.environ.get("RIPRAP_CACHE") or pathlib.Path.home() / ".cache" / "riprap") / "speed"
# For one run of a producer: a system that does not take its records in this time is not worth a figure.
RUN_S = 600
TOPIC = "speed"


def class_path():
    """The jars that the pom names, and all that they need."""
    CACHE.mkdir(parents=True, exist_ok=True)
    pom, listed = HERE / "pom.xml", CACHE / "class-path"
    if not listed.exists() or (CACHE / "pom.xml").read_bytes() != pom.read_bytes():
        listed.unlink(missing_ok=True)
        shutil.copy(pom, CACHE)
        subprocess.run(
            ["mvn", "-q", "-B", f"-Dmaven.repo.local={CACHE / 'repository'}", f"-Dmdep.outputFile={listed}",
             "dependency:build-classpath"],
            cwd=CACHE, check=True,
        )  # fmt: skip
    return listed.read_text().strip()


def java(jars, *arguments):
    quiet = "-Dorg.slf4j.simpleLogger.defaultLogLevel=error"
    command = ["java", "-Xmx512M", quiet, "-cp", jars, *arguments]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, timeout=RUN_S, text=True).stdout


def make_topic(jars, cluster, partitions):
    replicas = min(cluster.size, 3)
    java(
        jars, "org.apache.kafka.tools.TopicCommand", "--bootstrap-server", cluster.bootstrap, "--create",
        "--topic", TOPIC, "--partitions", str(partitions), "--replication-factor", str(replicas),
        "--config", f"min.insync.replicas={min(2, replicas)}",
    )  # fmt: skip


def build(*target):
    """Builds the bundled program, or what `target` says instead; its path."""
    target = target or ("-p", "riprap-cli")
    subprocess.run(["cargo", "build", "--quiet", "--release", *target], cwd=ROOT, check=True)
    built = pathlib.Path(os.environ.get("CARGO_TARGET_DIR") or ROOT / "target") / "release"
    return str(built / "examples" / target[-1] if "--example" in target else built / "riprap")
