# SPDX-License-Identifier: Apache-2.0
"""Real Kafka clusters in a box, for the demo, the tests and the benchmarks."""
