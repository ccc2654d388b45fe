# SPDX-License-Identifier: Apache-2.0
"""A client of Kafka Connect's REST API, for any worker."""
