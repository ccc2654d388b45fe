# SPDX-License-Identifier: Apache-2.0
"""What several suites need: waiting with context, names that never clash."""
