# SPDX-License-Identifier: Apache-2.0
"""Kafka clusters on this machine, for the demo, the tests and the benchmarks."""
