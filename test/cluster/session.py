# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026, the Torii authors
"""Commands on nodes, as a remote shell runs them. Each node serves a Unix socket; a client hands
over its standard streams and the command, and is told the exit status. A command whose client
went away is told to hang up."""
import json
import os
import selectors
import signal
import socket
import struct

_LENGTH = struct.Struct("<I")
_REQUEST_MAX = 8 << 20


def _receive(connection, size):
    data = b""
    while len(data) < size:
        part = connection.recv(size - len(data))
        if not part:
            raise EOFError
        data += part
    return data


# --- the client ---------------------------------------------------------------------------------

def call(path, arguments, folder, environment):
    """Runs a command at the node that serves `path`; returns its exit status, 128 + n if signal n
    ended it."""
    request = json.dumps({"arguments": arguments, "folder": folder,
                          "environment": environment}).encode()
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(path)
        socket.send_fds(connection, [_LENGTH.pack(len(request))], [0, 1, 2])
        connection.sendall(request)
        try:
            return _LENGTH.unpack(_receive(connection, _LENGTH.size))[0]
        except (EOFError, ConnectionError):
            return 255  # the node is gone


# --- the node -----------------------------------------------------------------------------------

class Server:
    """Process 1 of a node: runs what clients ask for and reaps what others leave."""

    def __init__(self, path):
        self._sessions = {}  # by process id: the client's connection
        self._selector = selectors.DefaultSelector()
        self._listener = socket.socket(socket.AF_UNIX)
        # The path may be longer than an address: bind by the folder's descriptor.
        folder = os.open(os.path.dirname(path), os.O_PATH)
        self._listener.bind(f"/proc/self/fd/{folder}/{os.path.basename(path)}")
        os.close(folder)
        self._listener.listen(64)
        self._child, wake = socket.socketpair()
        self._child.setblocking(False)
        wake.setblocking(False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(wake.fileno(), warn_on_full_buffer=False)
        self._wake = wake
        self._selector.register(self._listener, selectors.EVENT_READ)
        self._selector.register(self._child, selectors.EVENT_READ)

    def serve(self):
        while True:
            for key, _ in self._selector.select():
                if key.fileobj is self._listener:
                    self._accept()
                elif key.fileobj is self._child:
                    self._child.recv(4096)
                    self._reap()
                else:
                    self._hang_up(key.fileobj)

    def _accept(self):
        connection, _ = self._listener.accept()
        connection.settimeout(10)  # a client that says nothing does not stop the node
        descriptors = []
        try:
            head, descriptors, _, _ = socket.recv_fds(connection, _LENGTH.size, 3)
            head += _receive(connection, _LENGTH.size - len(head))
            size = _LENGTH.unpack(head)[0]
            if size > _REQUEST_MAX or len(descriptors) != 3:
                raise ValueError
            pid = self._start(json.loads(_receive(connection, size)), descriptors)
        except (OSError, EOFError, ValueError):
            connection.close()
            return
        finally:
            for descriptor in descriptors:
                os.close(descriptor)
        self._sessions[pid] = connection
        self._selector.register(connection, selectors.EVENT_READ)

    def _start(self, request, descriptors):
        pid = os.fork()
        if pid:
            return pid
        try:
            os.setsid()
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            for number, descriptor in enumerate(descriptors):
                os.dup2(descriptor, number)
            _execute(request)
        finally:
            os._exit(126)

    def _hang_up(self, connection):
        self._selector.unregister(connection)
        connection.close()
        for pid, other in self._sessions.items():
            if other is connection:
                try:
                    os.killpg(pid, signal.SIGHUP)
                except ProcessLookupError:
                    pass

    def _reap(self):
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            connection = self._sessions.pop(pid, None)
            if connection is None or connection.fileno() < 0:
                continue
            code = os.waitstatus_to_exitcode(status)
            self._selector.unregister(connection)
            try:
                connection.sendall(_LENGTH.pack(code if code >= 0 else 128 - code))
            except OSError:
                pass
            connection.close()


def _execute(request):
    arguments = request["arguments"]
    try:
        os.chdir(request["folder"])
    except OSError:
        os.chdir("/")  # a folder that this node does not have, as with a remote shell
    try:
        os.execvpe(arguments[0], arguments, request["environment"])
    except OSError as error:
        os.write(2, f"{arguments[0]}: {error.strerror}\n".encode())
        os._exit(127)
