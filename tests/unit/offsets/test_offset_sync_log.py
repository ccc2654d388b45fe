# SPDX-License-Identifier: Apache-2.0
"""Translation of offsets before the start of the map."""

from __future__ import annotations

import pytest

from sparkmirror.offsets.offset_map import Fit, Translation
from sparkmirror.offsets.offset_sync_log import more_conservative

BEFORE = Translation(40, Fit.BEFORE)


@pytest.mark.parametrize(
    ("by_map", "by_syncs", "expected"),
    [
        (None, None, None),
        (BEFORE, None, BEFORE),
        (None, Translation(7, Fit.NEAR), Translation(7, Fit.NEAR)),
        (BEFORE, Translation(7, Fit.NEAR), Translation(7, Fit.NEAR)),
        # The syncs are those of a remote topic that was deleted and recreated.
        (BEFORE, Translation(809, Fit.NEAR), Translation(40, Fit.NEAR)),
    ],
)
def test_the_lower_of_two_rough_answers_counts(
    by_map: Translation | None, by_syncs: Translation | None, expected: Translation | None
) -> None:
    """Reading records twice is better than skipping them."""
    assert more_conservative(by_map, by_syncs) == expected
