# SPDX-License-Identifier: Apache-2.0
"""Prometheus metrics; no other package imports prometheus_client."""
