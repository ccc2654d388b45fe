# SPDX-License-Identifier: Apache-2.0
"""Replication policies (names of remote topics) and filters."""
