# SPDX-License-Identifier: Apache-2.0
"""Where a flow stands, kept in Connect's own topics."""
