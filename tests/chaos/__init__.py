# SPDX-License-Identifier: Apache-2.0
"""Faults drawn from a seed while records flow, and a verdict: `python -m chaos --help`."""
