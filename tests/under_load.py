"""Run a command beside busy loops: `python tests/under_load.py COMMAND …`; its exit code.

No test may depend on how busy the machine is. What a test waits for is an event or a
count, and its bounds follow from the design.
"""

import signal
import subprocess
import sys

BUSY_LOOPS = 2


def main(command: list[str]) -> int:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # the loops must not outlive this
    loops = [
        subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(BUSY_LOOPS)
    ]
    try:
        return subprocess.call(command)
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
