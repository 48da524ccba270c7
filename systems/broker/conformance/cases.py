"""What a client's program says about its cases, and how a program in Python says it.

A program is called with `BOOTSTRAP PREFIX REPLICAS PART`. Every topic and group that it makes begins with PREFIX. PART is
`quiet`, or `restarts`: the cases of a client that must go on while every broker is killed and started again, once, in the
first half minute. It prints

    version NAME VERSION
    pass CASE
    fail CASE: WHY

on standard output, a line for each; other lines are noise. A case that it does not name, because it ended before, has
failed: it says `end` when it is through.
"""

import sys
import traceback

# How long a client goes on sending while brokers are restarted: longer than that takes.
SEND_S = 30
# The pause between two records: enough of them to notice, few enough to look at each.
SEND_PAUSE_S = 0.01


class Cases:
    """The cases of one program, in the order written."""

    def __init__(self):
        self.bootstrap, self.prefix = sys.argv[1], sys.argv[2]
        self.replicas, self.part = int(sys.argv[3]), sys.argv[4]
        self.all = []

    def case(self, function):
        """Marks a case of the quiet part. It passes if it returns."""
        if self.part == "quiet":
            self.all.append(function)
        return function

    def through_restarts(self, function):
        """Marks a case of the part with restarts."""
        if self.part == "restarts":
            self.all.append(function)
        return function

    def name(self, name):
        """A topic or group of this program's own."""
        return f"{self.prefix}-{name}"

    def run(self, version):
        print(f"version {version}", flush=True)
        for function in self.all:
            name = function.__name__.replace("_", "-")
            try:
                function()
                print(f"pass {name}", flush=True)
            except Exception as e:  # Whatever a client throws is its verdict.
                traceback.print_exc()
                why = " ".join(f"{type(e).__name__}: {e}".split())
                print(f"fail {name}: {why[:300]}", flush=True)
        print("end", flush=True)


def equal(got, expect, what=""):
    """Errors: an AssertionError that says both."""
    if got != expect:
        raise AssertionError(f"{what} {got!r}, not {expect!r}"[:300].strip())
