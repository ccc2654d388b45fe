# SPDX-License-Identifier: Apache-2.0
"""The two programs: `run` (a mirror file) and `worker` (a Connect worker), and what both need."""
