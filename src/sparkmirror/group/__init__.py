# SPDX-License-Identifier: Apache-2.0
"""Membership of a worker in its Connect group."""
