"""Options of programs that run another program: how many words to step over to get to it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from spectune.domain.errors import InputError


@dataclass(frozen=True, slots=True)
class Options:
    """The options of one program, well enough to find the first word that is none.

    Attributes:
        switches: spellings that take no value, with dashes.
        valued: spellings that take one.
        positionals: words that are still the program's own, before the command it runs.
        assignments: whether words NAME=value may stand before the command.
        numbers: whether -5 is a switch.
    """

    switches: frozenset[str] = frozenset()
    valued: frozenset[str] = frozenset()
    positionals: int = 0
    assignments: bool = False
    numbers: bool = False

    def skip(self, words: Sequence[str], at: int = 1) -> int:
        """Index of the command's first word; len(words) where there is none.

        Raises:
            InputError: an option that is not known here, so that nobody can say whether the next word is its value.
        """
        left = self.positionals
        while at < len(words):
            word = words[at]
            if word == "--":
                at += 1
                while self.assignments and at < len(words) and "=" in words[at] and words[at][:1] not in "/.":
                    at += 1
                break
            if word.startswith("-") and len(word) > 1:
                at += self._length(word, words[0])
            elif self.assignments and "=" in word and not word.startswith(("/", ".")):
                at += 1
            else:
                break
        return min(at + left, len(words))

    def value(self, words: Sequence[str], spellings: Sequence[str], end: int) -> str | None:
        """The value that an option has among the words before end; None where it is not given."""
        at = 1
        found = None
        while at < end and words[at] != "--" and words[at].startswith("-"):
            name, equals, value = words[at].partition("=")
            if name in spellings:
                found = value if equals else words[at + 1] if at + 1 < end else None
            at += self._length(words[at], words[0])
        return found

    def _length(self, word: str, program: str) -> int:
        """How many words an option takes."""
        name, equals, _ = word.partition("=")
        if name in self.switches or word in self.switches or (equals and name in self.valued):
            return 1
        if word in self.valued:
            return 2
        if self.numbers and word[1:].lstrip("-").isdigit():
            return 1
        if not word.startswith("--"):
            for index, letter in enumerate(word[1:], 1):
                if f"-{letter}" in self.valued:
                    return 1 if word[index + 1 :] else 2
                if f"-{letter}" not in self.switches:
                    break
            else:
                return 1
        raise InputError(f"the option {name} of {program.rpartition('/')[2]} is not known here")


def options(switches: str = "", valued: str = "", positionals: int = 0, **rest: bool) -> Options:
    """Options from spellings separated by blanks."""
    return Options(frozenset(switches.split()), frozenset(valued.split()), positionals, **rest)


WRAPPERS = {
    "env": options("-i - -0 --ignore-environment -v --debug", "-u --unset -C --chdir", assignments=True),
    "nice": options("", "-n --adjustment", numbers=True),
    "ionice": options("-t --ignore", "-c --class -n --classdata"),
    "numactl": options(
        "-l --localalloc -a --all -b --balancing",
        "-N --cpunodebind -m --membind -C --physcpubind -i --interleave -p --preferred -w --weighted-interleave -P"
        " --preferred-many",
    ),
    "taskset": options("-a --all-tasks -c --cpu-list", "", 1),
    "chrt": options(
        "-f --fifo -r --rr -o --other -b --batch -i --idle -d --deadline -R --reset-on-fork -v --verbose",
        "-T --sched-runtime -P --sched-period -D --sched-deadline",
        1,
    ),
    "timeout": options("--foreground --preserve-status -v --verbose", "-k --kill-after -s --signal", 1),
    "stdbuf": options("", "-i --input -o --output -e --error"),
    "nohup": options(),
    "setsid": options("-c --ctty -f --fork -w --wait"),
    "setpriv": options(
        "--no-new-privs --clear-groups --keep-groups --init-groups --reset-env",
        "--reuid --regid --ruid --euid --rgid --egid --groups --inh-caps --ambient-caps --bounding-set --securebits"
        " --pdeathsig --selinux-label --apparmor-profile",
    ),
    "prlimit": options("", "--nofile --memlock --nproc --as --core --data --stack --rss --cpu --fsize"),
    "flock": options("-n --nonblock -e -x --exclusive -s --shared -o --close -F --no-fork", "-w --wait -E", 1),
    "sudo": options(
        "-E -H -n -i --preserve-env --non-interactive --set-home", "-u --user -g --group", assignments=True
    ),
    "runuser": options("", "-u --user -g --group -G --supp-group"),
    "gosu": options("", "", 1),
    "su-exec": options("", "", 1),
    "tini": options("-s -v -g", "-p -e"),
    "dumb-init": options("-c --single-child -v --verbose", "-r --rewrite"),
    "systemd-cat": options("", "-t --identifier -p --priority --stderr-priority --level-prefix"),
    "systemd-inhibit": options("", "--what --who --why --mode"),
    "time": options("-v -p"),
    "exec": options("-c -l", "-a"),
    "command": options("-p"),
}
"""Programs that run the rest of their command line."""

UV = options(
    "--frozen --locked --no-sync --isolated --no-project --offline --exact --active --all-extras --all-groups --no-dev"
    " --no-default-groups -q --quiet -v --verbose -n --no-cache --no-config --no-env-file --no-progress -U --upgrade"
    " --managed-python --no-managed-python --native-tls --refresh --reinstall --no-editable --system-certs",
    "--with --with-editable --with-requirements -p --python --project --directory --extra --no-extra --group --no-group"
    " --only-group --env-file --package --index --default-index --index-url -i --extra-index-url -f --find-links"
    " --index-strategy --cache-dir --config-file --link-mode --resolution --prerelease --color --from"
    " --torch-backend --refresh-package --reinstall-package -P --upgrade-package -c --constraints --overrides",
)
"""Options of `uv`, `uv run` and `uvx`."""

CONDA = options(
    "-v --verbose --no-capture-output --live-stream --dev --debug-wrapper-scripts -vv -vvv --quiet -q",
    "-n --name -p --prefix --cwd -r --root-prefix -a --attach",
)
"""Options of `conda run`, `mamba run` and `micromamba run`."""

RUNNERS = {
    "uv": UV,
    "conda": CONDA,
    "mamba": CONDA,
    "micromamba": CONDA,
    "poetry": options("-q --quiet -v -vv -vvv --no-interaction -n --no-ansi", "-C --directory -P --project"),
    "pipenv": options("--bare --quiet -q"),
    "pdm": options("-q --quiet -v --no-self -s --site-packages", "-p --project"),
    "hatch": options("-q -v", "-e --env -p --project"),
    "pixi": options("--frozen --locked -v -q --no-install --as-is", "-e --environment --manifest-path --color"),
}
"""Programs whose `run` runs the rest of the command line."""

PYTHON = options("-u -O -OO -B -E -s -S -I -P -q -v -b -d -i -x", "-X -W --check-hash-based-pycs")
SHELLS = frozenset({"sh", "bash", "dash", "ash", "ksh"})
FRESH = {
    "sudo": frozenset({"*"}),
    "runuser": frozenset({"*"}),
    "env": frozenset({"-i", "-", "--ignore-environment", "-u", "--unset"}),
}
"""Wrappers that may take variables out of the environment: always ("*"), or with one of these options."""


def shell_options(words: Sequence[str]) -> tuple[int, bool, bool]:
    """Reads the options of a shell: index of the first word that is none, whether that is a script (-c), and whether it
    is a login shell.

    Raises:
        InputError: an option that is not known here.
    """
    at = 1
    command = login = False
    while at < len(words) and words[at][:1] in {"-", "+"} and len(words[at]) > 1:
        word = words[at]
        at += 1
        if word == "--":
            break
        if word in {"--login", "--norc", "--noprofile", "--posix"}:
            login = login or word == "--login"
        elif word in {"--rcfile", "--init-file"}:
            at += 1
        elif not word.startswith("--") and set(word[1:]) <= set("clieuxafhomnpbvBCEHPTO"):
            command, login = command or "c" in word, login or "l" in word
            at += ("o" in word) + ("O" in word)
        else:
            raise InputError(f"the option {word} of {words[0]} is not known here")
    return at, command, login


CONTAINER_GLOBAL = options(
    "-D --debug --tls --tlsverify --remote -r",
    "-H --host -c --context --config -l --log-level --root --runroot --storage-driver --storage-opt --cgroup-manager"
    " --runtime --url --connection --identity --events-backend --network-cmd-path --conmon",
)
"""Options between `docker` or `podman` and `run`."""

CONTAINER_RUN = options(
    "-d --detach -i --interactive -t --tty --rm --init --privileged --read-only -P --publish-all --no-healthcheck"
    " --oom-kill-disable --sig-proxy --disable-content-trust -q --quiet --replace --rmi --no-hosts --no-hostname"
    " --env-host --http-proxy --read-only-tmpfs --unsetenv-all --passwd --tls-verify --use-api-socket",
    "-e --env --env-file -v --volume --mount --tmpfs --volumes-from --volume-driver -p --publish --expose --name"
    " --hostname -h --network --net --network-alias --net-alias --ip --ip6 --mac-address --dns --dns-search"
    " --dns-option --dns-opt --add-host --link --link-local-ip --gpus --device --device-cgroup-rule"
    " --device-read-bps --device-write-bps --device-read-iops --device-write-iops --runtime --ipc --pid --uts"
    " --userns --cgroupns --cgroup-parent --cgroup-conf --cgroups --shm-size --shm-size-systemd -m --memory"
    " --memory-swap --memory-reservation --memory-swappiness --kernel-memory --cpus --cpu-shares -c --cpu-period"
    " --cpu-quota --cpu-rt-period --cpu-rt-runtime --cpuset-cpus --cpuset-mems --blkio-weight"
    " --blkio-weight-device --pids-limit --oom-score-adj --ulimit --sysctl --cap-add --cap-drop --security-opt"
    " --group-add -u --user -w --workdir --label -l --label-file --annotation --log-driver --log-opt --restart"
    " --stop-signal --stop-timeout --detach-keys --entrypoint --health-cmd --health-interval --health-retries"
    " --health-timeout --health-start-period --health-start-interval --health-on-failure --platform --pull"
    " --isolation --storage-opt -a --attach --cidfile --pidfile --conmon-pidfile --sdnotify --systemd --secret"
    " --umask --timezone --tz --timeout --hooks-dir --image-volume --init-path --arch --os --variant --authfile"
    " --creds --cert-dir --decryption-key --pod --pod-id-file --preserve-fds --preserve-fd --requires --rootfs"
    " --seccomp-policy --uidmap --gidmap --subuidname --subgidname --personality --passwd-entry --group-entry"
    " --chrootdirs --env-merge --unsetenv --retry --retry-delay --gpu --pasta",
)
"""Options of `docker run` and `podman run`."""
