from __future__ import annotations

from dataclasses import replace

import pytest

from spectune.assemble.promotions import check_any_allowed
from spectune.domain.errors import InputError
from spectune.domain.spec import CampaignSpec, WorkloadSpec
from tests.report.sample import provenance, spec


@pytest.mark.parametrize(
    ("simulated", "forced_length", "reason"),
    [
        ("a simulated SGLang", False, "it was measured on a simulated SGLang"),
        ("", True, "it was measured on answers forced past their end (ignore_eos), which flatters speculation"),
        ("", False, ""),
    ],
)
def test_what_no_winner_could_be_is_told_before_the_service_is_stopped(
    simulated: str, forced_length: bool, reason: str
) -> None:
    campaign = _campaign(forced_length)
    check_any_allowed(provenance(simulated), campaign, "I know")
    if not reason:
        check_any_allowed(provenance(simulated), campaign, " ")
        return
    with pytest.raises(InputError) as caught:
        check_any_allowed(provenance(simulated), campaign, " ")
    assert caught.value.message == f"no winner could be promoted: {reason}"
    assert "--force" in caught.value.advice


def _campaign(ignore_eos: bool) -> CampaignSpec:
    return replace(spec(), workload=WorkloadSpec(ignore_eos=ignore_eos))
