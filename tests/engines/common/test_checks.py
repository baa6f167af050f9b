from __future__ import annotations

import pytest

from spectune.domain.candidate import Speculation
from spectune.domain.errors import InputError
from spectune.engines.common.checks import check_none, check_port


@pytest.mark.parametrize("port", [0, -1, 65536])
def test_no_ports(port: int) -> None:
    check_port(1)
    check_port(65535)
    with pytest.raises(InputError, match=f"service.port must be 1 to 65535 at launch, got {port}"):
        check_port(port)


@pytest.mark.parametrize(
    ("speculation", "settings", "message"),
    [
        (Speculation(depth=3), {}, "there is no depth"),
        (Speculation(draft_model="/d"), {}, "no draft model"),
        (Speculation(), {"x": 1}, "'x' would be silently ignored"),
    ],
    ids=str,
)
def test_speculation_without_a_method(speculation: Speculation, settings: dict[str, int], message: str) -> None:
    check_none(Speculation(), {}, "candidate")
    with pytest.raises(InputError, match=f"^candidate: .*{message}"):
        check_none(speculation, settings, "candidate")
