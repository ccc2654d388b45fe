# SPDX-License-Identifier: Apache-2.0
"""State in Kafka: positions, Connect's config and status topics, incidents, granted ACLs."""
