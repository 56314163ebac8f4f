"""Words, flags, colours and exit codes."""

import gc
import signal


def main() -> None:
    """Run the command `ingot`."""
    # Before the imports, of whose 95 ms it saves 5: a command is short, and makes no cycles
    # that would matter.
    gc.disable()
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        # Ctrl-C during the imports is no reason for a traceback.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from cli.main import run

    run()
