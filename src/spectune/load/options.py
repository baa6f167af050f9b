"""How the load generator asks, whatever is measured."""

from __future__ import annotations

import ssl as tls
from dataclasses import dataclass, field

from spectune.domain.measurement import Slo
from spectune.load.body import Api
from spectune.load.exchange import Timeouts
from spectune.load.record import Tokenizer


@dataclass(frozen=True, slots=True)
class Options:
    """How to ask, whatever is measured.

    Attributes:
        timeouts: of each request.
        api: which endpoint is asked.
        ssl: for https; by default certificates are verified as usual. Only one process can use it.
        tokenizer: counts tokens where a server sends neither usage nor token ids.
        slo: of requests that goodput counts; None leaves goodput out.
        most_in_flight: requests in flight at which an open loop gives up, since the server cannot keep the rate.
        processes: that share the load; None decides by the level and the cores.
        compiled: use the compiled client where there is one.
    """

    timeouts: Timeouts = field(default_factory=Timeouts)
    api: Api = Api.CHAT
    ssl: tls.SSLContext | None = None
    tokenizer: Tokenizer | None = None
    slo: Slo | None = None
    most_in_flight: int = 4096
    processes: int | None = None
    compiled: bool = True
