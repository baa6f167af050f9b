"""What ssh says, recorded from OpenSSH 9.2, and what it means."""

from __future__ import annotations

import pytest

from spectune.domain.errors import HostError, HostKeyRefused, HostUnreachable, LoginRefused
from spectune.hosts.ssh_words import connecting


@pytest.mark.parametrize(
    ("said", "kind", "words"),
    [
        ("ssh: connect to host 10.0.0.9 port 22: Connection refused", HostUnreachable, "Connection refused"),
        ("ssh: connect to host 10.0.0.9 port 22: Connection timed out", HostUnreachable, "timed out"),
        ("ssh: Could not resolve hostname x: Name or service not known", HostUnreachable, "there is no host box"),
        ("kex_exchange_identification: Connection closed by remote host\r\n", HostUnreachable, "Connection closed"),
        ("", HostUnreachable, "without a word"),
        ("root@box: Permission denied (publickey,password).", LoginRefused, "Permission denied"),
        ("Received disconnect from x: Too many authentication failures", LoginRefused, "Too many"),
        (
            "No ED25519 host key is known for x and strict\r\nHost key verification failed.\r\n",
            HostKeyRefused,
            "not known",
        ),
        (
            "@ WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED! @\r\nHost key verification failed.",
            HostKeyRefused,
            "had before",
        ),
        ("@ WARNING: REVOKED HOST KEY DETECTED! @\r\nHost key", HostKeyRefused, "revoked"),
        ("/h/.ssh/config: line 3: Bad configuration option: foo\r\nterminating", HostError, "line 3"),
        ("Bad owner or permissions on /root/.ssh/config", HostError, "Bad owner"),
    ],
)
def test_causes(said: str, kind: type[HostError], words: str) -> None:
    error = connecting("box", said)
    assert type(error) is kind
    assert words in error.message
    assert "box" in error.message
    assert error.advice
