# SPDX-License-Identifier: Apache-2.0
"""Benchmarks: sparkmirror, Java MM2 and the copy loop in turns on the same brokers and data."""
