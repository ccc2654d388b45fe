# SPDX-License-Identifier: Apache-2.0
"""Plan, copy, receipts, epochs and the control channel: what runs on Spark."""
