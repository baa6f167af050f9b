"""Outputs are constructed after the wording of pip 23, cmake 3.25, ninja 1.11 and g++ 12. Failures that really
happen are in test_pypi and test_llama_server."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spectune.provision.failures import cause, telling_lines

CASES = {
    "no network": (
        (
            "WARNING: Retrying (Retry(total=0)) after connection broken by 'NewConnectionError('<pip._vendor.urllib3"
            ".connection.HTTPSConnection object at 0x7f>: Failed to establish a new connection: [Errno -3] Temporary"
            " failure in name resolution')': /simple/x/\n"
            "ERROR: Could not find a version that satisfies the requirement x==1 (from versions: none)\n"
            "ERROR: No matching distribution found for x==1\n"
        ),
        "can't be reached",
        "network",
    ),
    "unknown or unreachable": (
        "ERROR: Could not find a version that satisfies the requirement x==1 (from versions: none)\n",
        "knows nothing of it, or can't be reached",
        "network",
    ),
    "not on the index": (
        (
            "Looking in indexes: https://index.example/simple\n"
            "ERROR: Could not find a version that satisfies the requirement x==1 (from versions: 0.9)\n"
            "ERROR: No matching distribution found for x==1\n"
        ),
        "doesn't have that version",
        "mirror",
    ),
    "another file": (
        (
            "ERROR: THESE PACKAGES DO NOT MATCH THE HASHES FROM THE REQUIREMENTS FILE. If you have updated the package"
            " versions, please update the hashes.\n        Expected sha256 00\n             Got        11\n"
        ),
        "another file",
        "pip config list",
    ),
    "certificate": (
        (
            "Could not fetch: SSLError(SSLCertVerificationError(1, '[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify"
            " failed: unable to get local issuer certificate'))"
        ),
        "certificate",
        "PIP_CERT",
    ),
    "credentials": (
        (
            "ERROR: HTTP error 401 while getting https://index.example/x.whl\n"
            "ERROR: 401 Client Error: Unauthorized for url: https://index.example/simple/x/\n"
        ),
        "refuses",
        "credentials",
    ),
    "no compiler": (
        (
            "CMake Error at CMakeLists.txt:2 (project):\n  No CMAKE_CXX_COMPILER could be found.\n\n"
            '  Tell CMake where to find the compiler by setting either the environment\n  variable "CXX"'
        ),
        "no working C++ compiler",
        "apt install g++",
    ),
    "broken compiler": (
        (
            'CMake Error at CMakeTestCXXCompiler.cmake:62 (message):\n  The C++ compiler\n\n    "/usr/bin/c++"\n\n'
            "  is not able to compile a simple test program.\n"
        ),
        "no working C++ compiler",
        "apt install g++",
    ),
    "old cmake": (
        (
            "CMake Error at CMakeLists.txt:1 (cmake_minimum_required):\n"
            "  CMake 3.14 or higher is required.  You are running version 3.10.2\n"
        ),
        "cmake is too old",
        "PATH",
    ),
    "killed compiler": (
        (
            "[101/208] Building CXX object tools/server/server.cpp.o\n"
            "FAILED: tools/server/server.cpp.o\n/usr/bin/c++ -O3 -c server.cpp\n"
            "c++: fatal error: Killed signal terminated program cc1plus\ncompilation terminated.\n"
        ),
        "ran out of memory",
        "SPECTUNE_BUILD_JOBS=1",
    ),
    "compiler out of memory": (
        "cc1plus: out of memory allocating 65536 bytes after a total of 123 bytes\n",
        "ran out of memory",
        "SPECTUNE_BUILD_JOBS=1",
    ),
    "disk full while compiling": (
        (
            "/tmp/ccX.s: Assembler messages:\n/tmp/ccX.s: Fatal error: can't write 12 bytes to section .text of x.o:"
            " 'No space left on device'\n"
        ),
        "disk is full",
        "0.5 GB",
    ),
    "disk full while fetching": (
        "ERROR: Could not install packages due to an OSError: [Errno 28] No space left on device\n",
        "disk is full",
        "0.5 GB",
    ),
    "old compiler": (
        "c++: error: unrecognized command line option '-std=gnu++17'\n",
        "compiler is too old",
        "g++ 9",
    ),
    "no headers": (
        "/src/ggml.c:1:10: fatal error: stdio.h: No such file or directory\n",
        "headers",
        "build-essential",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_causes(name: str) -> None:
    output, what, advice = CASES[name]
    found = cause(output)
    assert found is not None
    assert what in found.what
    assert advice in found.advice
    assert found.memory == ("memory" in what)


@pytest.mark.parametrize(
    "output",
    ["", "[1/208] Building CXX object error.cpp.o\n", "/src/a.cpp:1:1: error: 'x' was not declared in this scope\n"],
)
def test_unknown_causes_are_not_guessed(output: str) -> None:
    assert cause(output) is None


def test_telling_lines_speak_of_errors() -> None:
    output = (
        "[1/9] Building CXX object a/error.cpp.o\n[2/9] Building b\nFAILED: b.o\n"
        "/src/b.cpp:1:1: error: 'x' was not declared\nninja: build stopped: subcommand failed.\n"
    )
    assert telling_lines(output) == "FAILED: b.o\n/src/b.cpp:1:1: error: 'x' was not declared"


def test_telling_lines_of_a_log_without_errors_are_its_last() -> None:
    assert telling_lines("a\nb\nc\n", count=2) == "b\nc"


@given(st.text())
def test_any_output_is_read(output: str) -> None:
    cause(output)
    assert len(telling_lines(output)) <= 12 * 301
