"""What the ssh client says, and what it means. Read with LogLevel=ERROR; ssh does not translate its messages."""

from __future__ import annotations

from spectune.domain.errors import HostError, HostKeyRefused, HostUnreachable, LoginRefused

_CONFIG = (
    "Bad configuration option",
    "bad configuration options",
    "Bad owner or permissions",
    "Can't open user config",
)


def connecting(name: str, said: str) -> HostError:
    """Why no connection came about.

    Args:
        name: the host, as the user calls it.
        said: all that ssh wrote.
    """
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    last = lines[-1] if lines else "ssh ended without a word"
    by_hand = f"Run `ssh {name} true` by hand"
    if "IDENTIFICATION HAS CHANGED" in said or ("host key for" in said.lower() and "has changed" in said):
        return HostKeyRefused(
            f"the host key of {name} is not the one that it had before: another machine may be answering in its place",
            f"Ask whoever runs {name} whether its key was changed. Only then remove the old one: ssh-keygen -R {name}",
        )
    if "REVOKED HOST KEY" in said:
        return HostKeyRefused(f"the host key of {name} is revoked", f"Ask whoever runs {name}.")
    if "Host key verification failed" in said or "host key is known for" in said:
        return HostKeyRefused(
            f"the host key of {name} is not known", f"{by_hand} once, compare the fingerprint that it shows, accept it."
        )
    if "Permission denied" in said or "Too many authentication failures" in said:
        return LoginRefused(
            f"{name} refuses the login: {last}",
            f"{by_hand}: it must not ask for anything. Where it asks for a key's passphrase, load the key with ssh-add;"
            " where it asks for a password, install a key with ssh-copy-id.",
        )
    for line in lines:
        if any(word in line for word in _CONFIG):
            return HostError(f"ssh can't use its configuration for {name}: {line}", "Correct that file.")
    if "Could not resolve hostname" in said:
        advice = f"Is {name} spelled as in ~/.ssh/config, or a name that this machine can look up?"
        return HostUnreachable(f"there is no host {name}: {last}", advice)
    return HostUnreachable(f"can't connect to {name}: {last}", f"{by_hand}; spectune needs that to work.")
