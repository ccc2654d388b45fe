# SPDX-License-Identifier: Apache-2.0
"""Real clusters, and what tests do to their disks and logs."""
