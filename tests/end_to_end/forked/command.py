"""Hands a command, its environment, directory and stdin to stderr to the server; ends as it does.

A copy of it is `peewit`, and the server's socket lies beside that. It loads next to nothing.
"""

import _socket  # of which `socket` takes longer to load than the rest
import marshal
import os
import sys


def main() -> None:
    """Ask, wait, exit."""
    program, *arguments = sys.argv
    directory = os.getcwd()  # noqa: PTH109 - pathlib takes longer to load than all the rest
    request = marshal.dumps((arguments, directory, dict(os.environ)))
    streams = b"".join(each.to_bytes(4, sys.byteorder) for each in range(3))
    server = _socket.socket(_socket.AF_UNIX, _socket.SOCK_SEQPACKET)
    server.connect(f"{program}-server")
    server.sendmsg([request], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, streams)])
    code = int(server.recv(16) or b"70")  # of software that fails, where the server has ended
    if code < 0:
        os.kill(os.getpid(), -code)
    os._exit(code)


main()
