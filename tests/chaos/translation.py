# SPDX-License-Identifier: Apache-2.0
"""Translates every offset after a run with the offset map, and compares the result."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import closing

from chaos.verdict import Seen, Stream
from sparkmirror.kafka.cluster_client import ClusterClient
from sparkmirror.model import TopicPartition
from sparkmirror.offsets.map_topic import MapTopic
from sparkmirror.offsets.offset_map import Fit
from sparkmirror.wire.settings import ConnectionSettings
from support.clients.librdkafka import Cluster

EXACT, ROUGH, WRONG, UNKNOWN = "exactly", "at or before", "wrongly", "not at all"


def translations(
    target: Cluster,
    topic: str,
    originals: Mapping[Stream, Sequence[Seen]],
    copies: Mapping[Stream, Sequence[Seen]],
) -> Counter[str]:
    """Count records by quality of translation; skips records that never arrived."""
    counts: Counter[str] = Counter()
    settings = ConnectionSettings("target", tuple(target.bootstrap_servers.split(",")), "chaos")
    with closing(ClusterClient(settings)) as client:
        for source in {source for source, _ in originals}:
            offsets = MapTopic(client, f"mm2-offset-map.{source}.internal")
            offsets.refresh()
            for stream in originals:
                if stream[0] == source:
                    counts += _translate(offsets, topic, stream, originals[stream], copies[stream])
    return counts


def _translate(
    offsets: MapTopic,
    topic: str,
    stream: Stream,
    originals: Sequence[Seen],
    copies: Sequence[Seen],
) -> Counter[str]:
    counts: Counter[str] = Counter()
    truth = {copy.number: copy.offset for copy in reversed(copies)}  # the first one counts
    tp = TopicPartition(topic, stream[1])
    for one in originals:
        if one.number not in truth:
            continue
        found = offsets.to_target(tp, one.offset)
        if found is None:
            counts[UNKNOWN] += 1
        elif found.offset > truth[one.number]:
            counts[WRONG] += 1
        elif found.fit is Fit.EXACT:
            counts[EXACT if found.offset == truth[one.number] else WRONG] += 1
        else:
            counts[ROUGH] += 1
    return counts
