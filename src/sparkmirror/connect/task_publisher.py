# SPDX-License-Identifier: Apache-2.0
"""Publishes the task configs of this worker's connectors to Connect's config topic.

They equal the configs of MM2's own tasks. Sparkmirror does not read them; REST clients do, and a
Java worker that takes over a connector. The leader writes them; other workers send them to the
leader, signed.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Mapping, Sequence
from functools import partial
from urllib.parse import quote

from sparkmirror.config.keys.connector_classes import ConnectorClass
from sparkmirror.config.worker_settings import WorkerSettings
from sparkmirror.connect.api import ApiError, SignedBody
from sparkmirror.connect.config_cache import ParsedConfig
from sparkmirror.connect.forwarding import ForwardedRequest, forward
from sparkmirror.connect.group_state import GroupState
from sparkmirror.connect.leader import GroupLeader
from sparkmirror.connect.signatures import sign
from sparkmirror.connectors.connector_states import ReportedState
from sparkmirror.connectors.desired_state import InstanceView
from sparkmirror.errors import ClusterError
from sparkmirror.formats.connect_config_records import TargetState
from sparkmirror.formats.connect_fields import Config
from sparkmirror.formats.connect_status_records import RunState
from sparkmirror.group.membership import Membership
from sparkmirror.state.connect_configs import ConfigLog
from sparkmirror.wire.backoff import Backoff

_PUBLISH_SECONDS = 5.0  # limit for the leader's response
_log = logging.getLogger(__name__)


class TaskPublisher:
    """Used on the reporter's thread only."""

    def __init__(
        self,
        settings: WorkerSettings,
        group_state: GroupState,
        membership: Membership,
        leader: GroupLeader,
    ) -> None:
        self._settings = settings
        self._group_state = group_state
        self._membership = membership
        self._leader = leader
        self._failed: dict[str, _PublishBackoff] = {}

    def problem(self, name: str) -> str:
        """Why the tasks of a connector are not published; empty if they are."""
        failed = self._failed.get(name)
        return failed.problem if failed is not None else ""

    def publish(self, parsed: ParsedConfig, view: InstanceView) -> bool:
        """Publish the tasks of a running connector if they differ; False if that fails."""
        name, configs = view.name, self._group_state.configs
        is_running = view.state.connector.state is RunState.RUNNING  # otherwise its last tasks stay
        if parsed.spec is None or not is_running:
            return True
        if configs.target_state(name) is not TargetState.STARTED:
            return True
        wanted = task_configs(parsed.spec.kind, parsed.config, view.state.tasks, view.groups)
        is_stale = configs.tasks(name) != wanted or name in configs.inconsistent
        is_exact = parsed.spec.settings.transactions.is_enabled
        if not is_stale and not (is_exact and name in configs.unfenced):
            self._failed.pop(name, None)
            return True
        failed = self._failed.get(name)
        if failed is not None and not failed.is_due:
            return True
        try:
            self._publish(name, wanted, is_stale=is_stale, is_exact=is_exact)
        except (ApiError, ClusterError) as error:
            sentence = f"its tasks could not be published: {error.__cause__ or error}"
            if self._failed.setdefault(name, _PublishBackoff()).failed(sentence):
                _log.warning(f"Connector {name}: {sentence}", extra={"connector": name})
            return False
        self._failed.pop(name, None)
        return True

    def _publish(self, name: str, wanted: list[Config], *, is_stale: bool, is_exact: bool) -> None:
        url = None if self._leader.is_ready else self._membership.leader_url
        if url is None:
            with self._leader.writing() as log:
                if is_stale:
                    put_tasks_if_started(log, name, wanted)
                if is_exact:
                    log.put_task_count(name, len(wanted))
            return
        path = f"/connectors/{quote(name, safe='')}"
        if is_stale:
            body = json.dumps([dict(one) for one in wanted]).encode()
            self._send_to_leader("POST", url, f"{path}/tasks", body)
        if is_exact:
            self._send_to_leader("PUT", url, f"{path}/fence", b"")

    def _send_to_leader(self, method: str, url: str, path: str, body: bytes) -> None:
        signed = self._sign(body)
        headers = {
            "X-Connect-Authorization": signed.signature or "",
            "X-Connect-Request-Signature-Algorithm": signed.algorithm or "",
        }
        answer = forward(
            ForwardedRequest(method, path, "", headers, body),
            url,
            _PUBLISH_SECONDS,
            partial(self._is_led_from, url),
            self._settings.rest.tls,
        )
        if not 200 <= answer.status < 300:  # noqa: PLR2004 - HTTP's own
            text = answer.body[:500].decode(errors="replace")
            raise ApiError(answer.status, f"the leader {url} answered {answer.status}: {text}")

    def _is_led_from(self, url: str) -> bool:
        return self._membership.leader_url == url

    def _sign(self, body: bytes) -> SignedBody:
        key = self._group_state.configs.session_key
        if key is None:
            raise ApiError(503, "there is no session key yet")
        return sign(body, key.secret, self._settings.signing.signature_algorithm)


class _PublishBackoff:
    """When to retry after failures."""

    def __init__(self) -> None:
        self._backoff = Backoff()
        self._retry_at = 0.0
        self.problem = ""

    @property
    def is_due(self) -> bool:
        return time.monotonic() >= self._retry_at

    def failed(self, sentence: str) -> bool:
        """Whether the sentence is new."""
        self._retry_at = time.monotonic() + self._backoff.next_pause()
        is_new, self.problem = self.problem != sentence, sentence
        return is_new


def task_configs(
    kind: ConnectorClass,
    config: Config,
    tasks: Mapping[int, ReportedState],
    groups: Sequence[str] = (),
) -> list[Config]:
    """Return one config per task; `groups` are those of a checkpoint connector."""
    task_class = kind.java_name.removesuffix("Connector") + "Task"
    found: list[Config] = []
    for number, task in sorted(tasks.items()):
        one = {**config, "task.class": task_class}
        if kind is ConnectorClass.SOURCE:
            one["task.index"] = str(number)
            one["task.assigned.partitions"] = ",".join(map(str, task.partitions))
        elif kind is ConnectorClass.CHECKPOINT:
            one["task.index"] = str(number)
            if groups:
                one["task.assigned.groups"] = ",".join(groups)
        found.append(one)
    return found


def put_tasks_if_started(log: ConfigLog, name: str, configs: Sequence[Config]) -> None:
    """Publish tasks, unless the connector was stopped or deleted since they were counted.

    A stopped connector has no tasks; with tasks its offsets could not be altered.
    """
    known = log.state
    if name in known.configs and known.target_state(name) is TargetState.STARTED:
        log.put_tasks(name, configs)
