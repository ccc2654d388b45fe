# SPDX-License-Identifier: Apache-2.0
"""Sparkmirror and its peers, side by side: same brokers, same data, same machine, in turns."""
