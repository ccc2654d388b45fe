# SPDX-License-Identifier: Apache-2.0
"""A real Prometheus, and the queries of dashboards."""
