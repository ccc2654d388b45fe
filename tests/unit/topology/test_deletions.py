# SPDX-License-Identifier: Apache-2.0
"""Which remote topics may follow a deleted source topic: every doubt speaks against it."""

from uuid import UUID

from sparkmirror.errors import BrokerError
from sparkmirror.kafka.descriptions import TopicDescription
from sparkmirror.topology.deletions import DeleteTopic, deleted_topics, plan_deletions

OURS, OTHER = UUID(int=1), UUID(int=2)


def remote(topic_id: UUID | None) -> dict[str, TopicDescription]:
    """A topic on the target."""
    return {"a.t": TopicDescription("a.t", topic_id, 1, 1)}


def test_what_we_wrote_is_deleted() -> None:
    """The id is that of the topic which the positions name."""
    plan = plan_deletions({"t": "a.t"}, {"t": str(OURS)}, remote(OURS), {"u"})
    assert plan.actions == (DeleteTopic("t", "a.t", str(OURS)),)
    assert plan.kept == ()


def test_every_doubt_keeps_a_topic() -> None:
    """Another id, an unknown id, nothing else mirrored; what is gone need not be kept."""
    doubtful = [
        ({"t": str(OURS)}, remote(OTHER), {"u"}, "not the topic that was written"),
        ({"t": None}, remote(OURS), {"u"}, "not known"),
        ({"t": str(OURS)}, remote(None), {"u"}, "not known"),
        ({"t": str(OURS)}, remote(OURS), set[str](), "another cluster"),
    ]
    for written, target, mirrored, reason in doubtful:
        plan = plan_deletions({"t": "a.t"}, written, target, mirrored)
        assert plan.actions == ()
        assert reason in str(plan.kept[0])
    assert plan_deletions({"t": "a.t"}, {"t": str(OURS)}, {}, {"u"}).kept == ()


def test_a_topic_that_may_not_be_seen_is_not_a_deleted_one() -> None:
    """A list of topics cannot tell the two apart, an answer by name can."""
    answers = {
        "gone": BrokerError("no", cluster="a", code=3, retriable=True),
        "hidden": BrokerError("no", cluster="a", code=29, retriable=False),
    }
    assert deleted_topics(answers) == ["gone"]
