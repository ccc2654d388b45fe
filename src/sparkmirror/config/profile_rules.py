# SPDX-License-Identifier: Apache-2.0
"""Where a file's lines contradict what the services of its profiles are known to refuse."""

from __future__ import annotations

from sparkmirror.config.profiles import NO_PROFILE, SOURCE_KEY, TARGET_KEY, limits_of
from sparkmirror.config.reading import Reader, Report


def check_profiles(names: tuple[str, str], connector: Reader, report: Report) -> None:
    """Warn of lines that ask for what is refused; `names` are the profiles as layering saw them."""
    for key, name in zip((TARGET_KEY, SOURCE_KEY), names, strict=True):
        if connector.string(key) != (name or NO_PROFILE) and "${" in name:
            written = connector.origin(key).key
            report.error(
                connector.value(key),
                key,
                f"{written} must be the name itself: it decides what the other lines mean, before "
                "references are resolved.",
            )
    written_values = {(e.section, e.key): e for e in report.effective if e.origin.line}
    for profile, limit in limits_of(*names):
        value = written_values.get((limit.section, limit.key))
        if value is not None and not limit.is_kept_by(str(value.text)):
            report.warn(
                value.origin,
                f"{value.origin.key}={value.text} {limit.reason} (profile {profile.name}). It is "
                "used all the same; remove the line to have the profile's value.",
            )
