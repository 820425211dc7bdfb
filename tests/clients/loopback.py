"""Runs pytest; in a network namespace of its own it first switches on the loopback interface, the only one there."""

import fcntl
import os
import socket
import struct
import sys

import pytest

SIOCGIFFLAGS, SIOCSIFFLAGS, IFF_UP = 0x8913, 0x8914, 0x1


def switch_on_loopback() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        request = struct.pack("16sh14x", b"lo", 0)
        _, flags = struct.unpack("16sh14x", fcntl.ioctl(any_socket, SIOCGIFFLAGS, request))
        fcntl.ioctl(any_socket, SIOCSIFFLAGS, struct.pack("16sh14x", b"lo", flags | IFF_UP))


if __name__ == "__main__":
    if os.environ.get("CLIENTS_ISOLATED") == "1":
        switch_on_loopback()
    sys.exit(pytest.main(sys.argv[1:]))
