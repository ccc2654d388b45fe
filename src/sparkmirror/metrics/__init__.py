# SPDX-License-Identifier: Apache-2.0
"""Metrics for Prometheus: one table, rendered at every scrape."""
