from __future__ import annotations

import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spectune.hosts.wrapper import command_line, quote, wrapped

WORDS = st.lists(st.binary(max_size=40).map(lambda word: word.replace(b"\0", b"")), min_size=1, max_size=5)


@pytest.mark.parametrize("shell", ["sh", "bash"])
@given(words=WORDS)
def test_shells_read_the_words_back(shell: str, words: list[bytes]) -> None:
    line = command_line([b"printf", b"%s|", *words])
    seen = subprocess.run([shell.encode(), b"-c", line], capture_output=True, check=True).stdout
    assert seen == b"".join(word + b"|" for word in words)


@pytest.mark.parametrize(
    ("word", "quoted"),
    [
        (b"plain-1.2/x:y=z", b"plain-1.2/x:y=z"),
        (b"", b"''"),
        (b"a b", b"'a b'"),
        (b"it's", rb"'it'\''s'"),
        # fish reads a backslash inside of quotes, csh an exclamation mark.
        (b"\\n", rb"''\\'n'"),
        (b"!1", rb"''\!'1'"),
        (b"~", b"'~'"),
    ],
)
def test_quoting(word: bytes, quoted: bytes) -> None:
    assert quote(word) == quoted


@pytest.mark.parametrize("shell", [["dash"], ["bash"], ["bash", "--posix"]], ids=" ".join)
class TestShells:
    """/bin/sh is another program on other distributions."""

    def talk(self, shell: list[str], argv: list[bytes], said: bytes, length: int) -> tuple[bytes, bytes]:
        """Speaks the wrapper's language by hand; the end of `said` is the end of the lifeline."""
        line = [*(word.encode() for word in shell), *wrapped(argv, "MARK", 20, length)[1:]]
        done = subprocess.run(line, input=said, capture_output=True, check=False, timeout=20, start_new_session=True)
        return done.stdout, done.stderr

    @pytest.mark.parametrize(
        ("script", "out", "code"),
        [("exit 0", b"", 0), ("exit 255", b"", 255), ("kill -9 $$", b"", 137), ("cat; echo err >&2", b"input", 0)],
    )
    def test_to_the_end(self, shell: list[str], script: str, out: bytes, code: int) -> None:
        # The lifeline stays open: the output must end all the same.
        line = [*shell, *map(bytes.decode, wrapped([b"sh", b"-c", script.encode()], "MARK", 20, 5)[1:])]
        with subprocess.Popen(line, stdin=-1, stdout=-1, stderr=-1, start_new_session=True) as process:
            assert process.stdin is not None
            process.stdin.write(b"go\ninputend\n")
            process.stdin.flush()
            process.wait(20)
            assert process.stdout is not None
            assert process.stdout.read() == b"MARK(" + out + b"MARK)"
            assert process.stderr is not None
            assert process.stderr.read().endswith(f"MARK){code}.".encode())

    @pytest.mark.parametrize(
        "said", [b"", b"go", b"no\n", b"go\n", b"go\ninp", b"go\ninput", b"go\ninputen", b"go\ninputend\n"]
    )
    def test_a_lifeline_that_ends_too_early(self, shell: list[str], said: bytes) -> None:
        out, err = self.talk(shell, [b"sh", b"-c", b"cat >/dev/null; sleep 3; echo complete"], said, 5)
        assert b"complete" not in out
        assert b"MARK)" not in err
