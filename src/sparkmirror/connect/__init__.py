# SPDX-License-Identifier: Apache-2.0
"""A Kafka Connect worker: connectors by name, each run from its own configuration."""
