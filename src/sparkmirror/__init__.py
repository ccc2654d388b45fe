# SPDX-License-Identifier: Apache-2.0
"""Kafka MirrorMaker 2 for people who run Python and Spark."""

__version__ = "0.1.0"
